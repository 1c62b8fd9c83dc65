import { entryId, lifecycleKey, MENTION_GENERATION } from '@plane3/protocol';
import { type EntryFacts, Reader, type ReaderSettings, type StoredEntry } from '@plane3/reader';
import {
  MemoryAttachments,
  MemoryEntryStore,
  MemoryHandOver,
  MemoryMemberships,
  MemoryRights,
  MemoryTime,
} from '@plane3/reader/memory';

export const INCARNATION = 'chat1';
export const SENDER = 'local.sender';
export const memberKey = (name: string): string =>
  lifecycleKey({ owner: 'local', actor: name, uid: name.padEnd(26, 'x') });

export interface PostOptions {
  readonly channel?: string;
  readonly generation?: number;
  readonly kind?: 'durable' | 'mention';
  readonly seq?: number;
  readonly bytes?: number;
  readonly from?: string;
}

/** A reader with everything around it in memory, and hands on all of it. */
export class World {
  readonly store = new MemoryEntryStore();
  readonly handOver = new MemoryHandOver();
  readonly rights = new MemoryRights();
  readonly memberships = new MemoryMemberships();
  readonly attachments = new MemoryAttachments();
  readonly time = new MemoryTime();
  readonly settings: Partial<ReaderSettings>;
  mayLeave: (e: EntryFacts) => boolean = () => true;
  reader: Reader;
  events: string[] = [];
  #seq = 1;
  #boots = 0;

  constructor(settings: Partial<ReaderSettings> = {}) {
    this.settings = settings;
    this.reader = this.#make();
  }

  #make(): Reader {
    const { store, handOver, rights, memberships, attachments, time } = this;
    const reader = new Reader(
      {
        store,
        handOver: handOver.forDaemon(),
        confirmations: handOver.confirmations,
        attachments,
        rights,
        memberships,
        progress: { mayLeaveStore: (e) => this.mayLeave(e) },
        clock: time,
        timers: time,
      },
      this.settings,
    );
    reader.onEvent((e) => this.events.push(e.kind));
    return reader;
  }

  /** A new process: nothing of the old reader's memory, and its fence is behind ours. */
  async boot(): Promise<void> {
    this.reader = this.#make();
    this.handOver.fence++;
    const started = this.reader.start({
      fenceSeq: this.handOver.fence,
      incarnation: `d${++this.#boots}`,
    });
    await this.time.settle();
    const o = await started;
    if (o.kind !== 'done') throw new Error(`no start: ${JSON.stringify(o)}`);
  }

  member(name: string, channels: readonly string[] = ['general'], generation = 1): string {
    const key = memberKey(name);
    this.rights.set(key, channels);
    for (const c of channels)
      this.memberships.set(key, c, generation, {
        kind: 'open',
        incarnation: INCARNATION,
        joinCursor: 0,
      });
    return key;
  }

  /** One stored copy; the reader is told of it as fan-out would tell it. */
  post(member: string, o: PostOptions = {}): StoredEntry {
    const stored = this.put(member, o);
    this.reader.noteStored(stored);
    return stored;
  }

  put(member: string, o: PostOptions = {}): StoredEntry {
    const kind = o.kind ?? 'durable';
    const seq = o.seq ?? this.#seq++;
    const generation = kind === 'mention' ? MENTION_GENERATION : (o.generation ?? 1);
    const entry = { member, incarnation: INCARNATION, seq, generation };
    return this.store.put({
      entry,
      entryId: entryId(entry),
      channel: o.channel ?? 'general',
      kind,
      from: o.from ?? SENDER,
      body: new Uint8Array(o.bytes ?? 10),
      storedAt: this.time.wallMs(),
    });
  }

  attach(member: string, forMs = 3_600_000): Promise<void> {
    this.attachments.tell({ kind: 'present', member, forMs });
    return this.time.settle();
  }

  /** The member takes and confirms everything that lies there; answers the entry ids. */
  async confirmAll(member: string): Promise<string[]> {
    const taken: string[] = [];
    for (let round = 0; round < 1_000; round++) {
      const copies = this.handOver.of(member).filter((c) => !taken.includes(c.entryId));
      if (copies.length === 0) break;
      for (const c of copies) {
        taken.push(c.entryId);
        this.handOver.ack(c);
      }
      await this.time.settle();
    }
    return taken;
  }
}
