import { FanOut, type FanOutSettings, type StoredCopy } from '@plane3/fan-out';
import {
  ManualTime,
  MemoryChat,
  MemoryCopyStore,
  MemoryDeadPosts,
  MemoryDirectory,
  MemoryInbox,
  MemoryPostSource,
} from '@plane3/fan-out/memory';
import { type Lifecycle, lifecycleKey, principalId } from '@plane3/protocol';

export const PREFIX = 'cotal.main';

/** A lifecycle of a made-up owner; the same name and life give the same one. */
export const peer = (actor: string, life = 1): Lifecycle => ({
  owner: 'local',
  actor,
  uid: `${life}`.padStart(26, 'u'),
});

export const key = (actor: string, life = 1): string => lifecycleKey(peer(actor, life));

export interface PostText {
  readonly from: string;
  readonly channel: string;
  readonly text?: string;
  readonly id?: string;
  readonly mentions?: readonly string[];
}

export const bodyOf = (p: PostText): Uint8Array =>
  new TextEncoder().encode(
    JSON.stringify({
      id: p.id ?? '',
      ts: 1,
      space: 'main',
      from: { id: principalId(peer(p.from)), name: p.from },
      channel: p.channel,
      parts: [{ kind: 'text', text: p.text ?? 'hello' }],
      ...(p.mentions === undefined ? {} : { mentions: p.mentions }),
    }),
  );

export const subjectOf = (from: string, channel: string): string =>
  `${PREFIX}.chat.${principalId(peer(from))}.${channel}`;

/** Lets every promise and microtask that is ready run. */
export const breathe = (): Promise<void> => new Promise((ok) => setImmediate(ok));

/** Brokers that outlive the daemons, and a clock. Daemons start and are dropped. */
export class World {
  readonly chat = new MemoryChat(PREFIX);
  readonly inbox = new MemoryInbox();
  readonly dead = new MemoryDeadPosts();
  readonly directory = new MemoryDirectory();
  readonly time = new ManualTime();
  readonly told: StoredCopy[] = [];
  /** Access of the daemon that was made last. */
  store = new MemoryCopyStore(this.inbox);

  post(p: PostText): number {
    return this.chat.publish(subjectOf(p.from, p.channel), bodyOf(p));
  }

  daemon(settings: Partial<FanOutSettings> = {}): { fanOut: FanOut; source: MemoryPostSource } {
    const source = new MemoryPostSource(this.chat);
    this.store = new MemoryCopyStore(this.inbox);
    const fanOut = new FanOut(
      {
        source,
        store: this.store,
        dead: this.dead,
        directory: this.directory,
        clock: this.time,
        timers: this.time,
      },
      { prefix: PREFIX, ...settings },
    );
    fanOut.onStored((copy) => this.told.push(copy));
    return { fanOut, source };
  }

  /** A daemon that has raised its fence and runs. */
  async started(
    o: { readonly settings?: Partial<FanOutSettings>; readonly fromSeqIfNoCursor?: number } = {},
  ): Promise<FanOut> {
    const { fanOut } = this.daemon(o.settings);
    const fenceSeq = this.inbox.raiseFence();
    void fanOut.start({
      fenceSeq,
      incarnation: `d${fenceSeq}`,
      ...(o.fromSeqIfNoCursor === undefined ? {} : { fromSeqIfNoCursor: o.fromSeqIfNoCursor }),
    });
    await breathe();
    return fanOut;
  }

  /** Lets time pass until the cursor covers everything, or `turnsMax` turns are over. */
  async settle(fanOut: FanOut, turnsMax = 200): Promise<boolean> {
    for (let i = 0; i < turnsMax; i++) {
      await breathe();
      const { phase, cursor, copiesOpen } = fanOut.status();
      if (phase === 'running' && copiesOpen === 0 && cursor?.seq === this.chat.lastSeq) return true;
      this.time.advance(100);
    }
    return false;
  }

  /** `seq>member/generation` of each copy, in store order. */
  copies(): string[] {
    return this.inbox.copies.map(
      (c) => `${c.headers.get('Cotal-Seq')}>${c.member}/${c.headers.get('Cotal-Generation')}`,
    );
  }
}
