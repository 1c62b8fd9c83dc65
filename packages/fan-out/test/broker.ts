import { FanOut, type FanOutSettings, type StoredCopy } from '@plane3/fan-out';
import { MemoryDirectory } from '@plane3/fan-out/memory';
import { NatsCopyStore, NatsDeadPosts, NatsPostSource } from '@plane3/fan-out/nats';
import { JetStreamApi, type Link, openLink, Publisher } from '@plane3/link';
import { HEADER, inboxFenceSubject, type SpaceNames, spaceNames } from '@plane3/protocol';
import { type NatsProc, startNats } from '@plane3/testkit';
import { bodyOf, type PostText, subjectOf } from './world.ts';

export const NAMES: SpaceNames = spaceNames('main');
const SECOND_NS = 1_000_000_000;
const REMAKES_MAX = 20;

/** Streams as the wire contract has them, all in one account: grants are not what is tried here. */
const STREAMS: Record<string, object> = {
  [NAMES.streams.chat]: {
    subjects: [`${NAMES.prefix}.chat.>`],
    max_msgs_per_subject: 1_000,
    allow_direct: true,
  },
  [NAMES.streams.inbox]: {
    subjects: [`${NAMES.prefix}.dinbox.>`],
    allow_direct: true,
    allow_msg_ttl: true,
    discard: 'new',
  },
  [NAMES.streams.dead]: { subjects: [`${NAMES.prefix}.dead.>`] },
};

export interface Access {
  readonly link: Link;
  readonly api: JetStreamApi;
  readonly publisher: Publisher;
}

const systemClock = { monotonicMs: () => performance.now(), wallMs: () => Date.now() };
const systemTimers = {
  after: (ms: number, run: () => void) => {
    const timer = setTimeout(run, ms);
    return () => clearTimeout(timer);
  },
};

/** One real broker with the three streams, and daemons on it. */
export class Mesh {
  readonly nats: NatsProc;
  readonly tools: Access;
  readonly directory = new MemoryDirectory();
  readonly told: StoredCopy[] = [];
  private readonly links: Link[] = [];

  private constructor(nats: NatsProc, tools: Access) {
    this.nats = nats;
    this.tools = tools;
  }

  static async start(args: readonly string[] = []): Promise<Mesh> {
    const nats = await startNats({ args });
    const link = await openLink({ name: 'test', servers: [nats.url], transport: plain });
    const tools = { link, api: new JetStreamApi(link), publisher: new Publisher(link) };
    const mesh = new Mesh(nats, tools);
    for (const name of Object.keys(STREAMS)) await mesh.makeStream(name);
    return mesh;
  }

  async makeStream(name: string, more: object = {}): Promise<void> {
    const config = { name, storage: 'file', retention: 'limits', discard: 'old', ...STREAMS[name] };
    await this.call(`STREAM.CREATE.${name}`, {
      num_replicas: 1,
      duplicate_window: 120 * SECOND_NS,
      ...config,
      ...more,
    });
  }

  /**
   * Deletes a stream and makes it anew. A stream that is made right after its namesake was deleted
   * sometimes finds the old messages on disk (nats-server 2.14.0), so its emptiness is checked.
   */
  async remake(name: string, more: object = {}): Promise<void> {
    for (let attempt = 1; attempt <= REMAKES_MAX; attempt++) {
      await this.call(`STREAM.DELETE.${name}`);
      await this.makeStream(name, more);
      const o = await this.tools.api.streamInfo(name);
      if (o.kind === 'done' && o.value.state.last_seq === 0) return;
    }
    throw new Error(`${name} is never empty`);
  }

  async call(operation: string, payload?: unknown): Promise<unknown> {
    const o = await this.tools.api.call(operation, payload);
    if (o.kind !== 'done') throw new Error(`${operation}: ${JSON.stringify(o)}`);
    return o.value;
  }

  async access(url = this.nats.url, timeoutMs?: number): Promise<Access> {
    const link = await openLink({ name: 'daemon', servers: [url], transport: plain });
    this.links.push(link);
    const publisher = new Publisher(link, timeoutMs === undefined ? {} : { timeoutMs });
    return { link, api: new JetStreamApi(link), publisher };
  }

  async publish(subject: string, body: Uint8Array, headers?: [string, string][]): Promise<number> {
    const o = await this.tools.publisher.publish(subject, body, headers);
    if (o.kind !== 'done') throw new Error(JSON.stringify(o));
    return o.value.seq;
  }

  post(p: PostText): Promise<number> {
    return this.publish(subjectOf(p.from, p.channel), bodyOf(p));
  }

  raiseFence(): Promise<number> {
    const subject = inboxFenceSubject(NAMES.prefix, 0);
    return this.publish(subject, new TextEncoder().encode('{}'), [[HEADER.ttl, 'never']]);
  }

  store({ api, publisher }: Access): NatsCopyStore {
    return new NatsCopyStore({ api, publisher, names: NAMES, shard: 0 });
  }

  daemon(to: Access, settings: Partial<FanOutSettings> = {}): FanOut {
    const { api, publisher, link } = to;
    const fanOut = new FanOut(
      {
        source: new NatsPostSource({ link, api, names: NAMES }),
        store: this.store(to),
        dead: new NatsDeadPosts({ api, publisher, names: NAMES }),
        directory: this.directory,
        clock: systemClock,
        timers: systemTimers,
      },
      { prefix: NAMES.prefix, ...settings },
    );
    fanOut.onStored((copy) => this.told.push(copy));
    return fanOut;
  }

  /** A daemon with a connection and a fence of its own that runs. */
  async started(settings: Partial<FanOutSettings> = {}, to?: Access): Promise<FanOut> {
    const fanOut = this.daemon(to ?? (await this.access()), settings);
    const fenceSeq = await this.raiseFence();
    const o = await fanOut.start({ fenceSeq, incarnation: `d${fenceSeq}` });
    if (o.kind !== 'done') throw new Error(JSON.stringify(o));
    return fanOut;
  }

  async lastPost(): Promise<number> {
    const o = await this.tools.api.streamInfo(NAMES.streams.chat);
    return o.kind === 'done' ? o.value.state.last_seq : -1;
  }

  /** `seq>member/generation` of each copy in store order. */
  async copies(): Promise<string[]> {
    const found: string[] = [];
    const o = await this.store(this.tools).scan({ storeFloor: 0 }, (c) => {
      found.push(`${c.seq}>${c.member}/${c.generation}`);
    });
    if (o.kind !== 'done') throw new Error(JSON.stringify(o));
    return found;
  }

  async dead(): Promise<{ seq: string | undefined; reason: string | undefined; bytes: number }[]> {
    const found = [];
    for (let from = 1; ; ) {
      const o = await this.tools.api.nextOf(NAMES.streams.dead, '>', from);
      if (o.kind !== 'done') throw new Error(JSON.stringify(o));
      if (o.value === undefined) return found;
      const m = o.value;
      const bytes = m.body.length;
      found.push({ seq: m.header(HEADER.seq), reason: m.header(HEADER.reason), bytes });
      from = m.seq + 1;
    }
  }

  /** Like SIGKILL: nothing is asked any more, and the connection is gone. */
  kill(fanOut: FanOut, to: Access): Promise<void> {
    fanOut['term'].over = true;
    return to.link.close();
  }

  async stop(): Promise<void> {
    for (const link of [...this.links, this.tools.link]) await link.close();
    await this.nats.stop();
  }
}

const plain = { kind: 'plain' } as const;
