import {
  JetStreamApi,
  type Link,
  type MsgHdrs,
  openLink,
  type PublishAnswer,
  Publisher,
} from '@plane3/link';
import {
  encodeFrame,
  entryId,
  HEADER,
  handOverDurable,
  handOverFenceSubject,
  inboxSubject,
  type Lifecycle,
  MENTION_GENERATION,
  parseLifecycle,
  type SpaceNames,
  spaceNames,
} from '@plane3/protocol';
import { Reader, type ReaderSettings, type StoredEntry } from '@plane3/reader';
import { MemoryMemberships, MemoryRights } from '@plane3/reader/memory';
import {
  NatsAttachments,
  NatsConfirmations,
  NatsEntryStore,
  NatsHandOver,
} from '@plane3/reader/nats';
import { type NatsProc, startNats } from '@plane3/testkit';

export const must = <T>(o: { readonly kind: string; readonly value?: T }): T => {
  if (o.kind !== 'done') throw new Error(JSON.stringify(o));
  return o.value as T;
};

export const lifecycle = (key: string): Lifecycle => {
  const l = parseLifecycle(key);
  if (l === undefined) throw new Error(key);
  return l;
};

/** One space on one broker. The vault is the same account here: grants are shown elsewhere. */
export class Space {
  readonly nats: NatsProc;
  readonly names: SpaceNames;
  readonly link: Link;
  readonly api: JetStreamApi;
  readonly publisher: Publisher;
  readonly rights = new MemoryRights();
  readonly memberships = new MemoryMemberships();
  ackWaitMs = 60_000;
  #boots = 0;
  #seq = 1;
  readonly #closers: (() => void | Promise<void>)[] = [];

  private constructor(nats: NatsProc, name: string, link: Link) {
    this.nats = nats;
    this.names = spaceNames(name);
    this.link = link;
    this.api = new JetStreamApi(link);
    this.publisher = new Publisher(link);
  }

  static async make(nats: NatsProc, name: string): Promise<Space> {
    const s = new Space(nats, name, await connect(nats));
    await s.makeStream(s.names.streams.inbox, [`${s.names.prefix}.dinbox.>`], {
      allow_direct: true,
      discard: 'new',
    });
    await s.makeDlv();
    return s;
  }

  makeDlv(firstSeq?: number): Promise<void> {
    return this.makeStream(this.names.streams.dlv, [`${this.names.prefix}.dlv.>`], {
      allow_msg_ttl: true,
      ...(firstSeq === undefined ? {} : { first_seq: firstSeq }),
    });
  }

  async makeStream(name: string, subjects: string[], o: object): Promise<void> {
    await this.#request(`$JS.API.STREAM.CREATE.${name}`, {
      name,
      subjects,
      retention: 'limits',
      storage: 'file',
      num_replicas: 1,
      ...o,
    });
  }

  async deleteStream(name: string): Promise<void> {
    await this.#request(`$JS.API.STREAM.DELETE.${name}`, {});
  }

  async #request(subject: string, body: object): Promise<void> {
    const m = await this.link.nc.request(subject, JSON.stringify(body), { timeout: 5_000 });
    const { error } = m.json<{ error?: object }>();
    if (error !== undefined) throw new Error(JSON.stringify(error));
  }

  async newFence(): Promise<number> {
    const subject = handOverFenceSubject(this.names.prefix, 0);
    return must<{ seq: number }>(await this.publisher.publish(subject, new Uint8Array(1), [])).seq;
  }

  member(key: string, channels: readonly string[] = ['general']): string {
    this.rights.set(key, channels);
    for (const c of channels)
      this.memberships.set(key, c, 1, { kind: 'open', incarnation: 'chat1', joinCursor: 0 });
    return key;
  }

  /** As fan-out stores it. */
  async put(
    member: string,
    o: {
      seq?: number;
      channel?: string;
      kind?: 'durable' | 'mention';
      body?: Uint8Array;
      signature?: string;
    } = {},
  ): Promise<StoredEntry> {
    const { seq = this.#seq++, channel = 'general', kind = 'durable', signature } = o;
    const generation = kind === 'mention' ? MENTION_GENERATION : 1;
    const entry = { member, incarnation: 'chat1', seq, generation };
    const id = entryId(entry);
    const body = o.body ?? encodeFrame(channel, new TextEncoder().encode(`{"n":${seq}}`));
    const headers: [string, string][] = [
      [HEADER.msgId, id],
      [HEADER.entry, id],
      [HEADER.seq, String(seq)],
      [HEADER.channel, channel],
      [HEADER.kind, kind],
      [HEADER.generation, String(generation)],
      [HEADER.incarnation, 'chat1'],
      [HEADER.from, 'local.sender'],
      [HEADER.frame, '1'],
    ];
    if (signature !== undefined) headers.push([HEADER.signature, signature]);
    const answer: PublishAnswer = await this.publisher.publish(
      inboxSubject(this.names.prefix, lifecycle(member)),
      body,
      headers,
    );
    const storeSeq = must<{ seq: number }>(answer).seq;
    return {
      entry,
      entryId: id,
      storeSeq,
      channel,
      kind,
      from: 'local.sender',
      body,
      storedAt: Date.now(),
      ...(signature === undefined ? {} : { signature }),
    };
  }

  handOver(link = this.link, publisher = this.publisher): NatsHandOver {
    const { names, ackWaitMs } = this;
    return new NatsHandOver({ link, publisher, names, ackWaitMs, copyTtlMs: 2 * ackWaitMs });
  }

  /** A daemon's reader on a connection of its own; `kill` drops it as a crash would. */
  async boot(settings: Partial<ReaderSettings> = {}): Promise<Running> {
    const link = await connect(this.nats);
    const publisher = new Publisher(link);
    const { names, rights, memberships } = this;
    const reader = new Reader(
      {
        store: new NatsEntryStore({ api: new JetStreamApi(link), names }),
        handOver: this.handOver(link, publisher),
        confirmations: new NatsConfirmations({ link, names }),
        attachments: new NatsAttachments({ link, names }),
        rights,
        memberships,
        progress: { mayLeaveStore: () => true },
        clock: { monotonicMs: () => performance.now(), wallMs: () => Date.now() },
        timers: {
          after: (ms, run) => {
            const t = setTimeout(run, ms);
            return () => clearTimeout(t);
          },
          soon: (run) => void setImmediate(run),
        },
      },
      { ackWaitMs: this.ackWaitMs, sweepMs: 200, ...settings },
    );
    const events: string[] = [];
    reader.onEvent((e) => events.push(e.kind));
    const kill = async (): Promise<void> => {
      publisher.close();
      await link.nc.close();
    };
    this.#closers.push(async () => {
      await reader.stop();
      await kill();
      await link.close();
    });
    const start = async () => {
      const o = await reader.start({
        fenceSeq: await this.newFence(),
        incarnation: `d${++this.#boots}`,
      });
      must(o);
    };
    await start();
    return { reader, events, kill, start, link };
  }

  /** Pulls on the member's own durable, as an agent does; answers what came. */
  async pull(member: string, count: number, expiresMs = 2_000): Promise<Taken[]> {
    const durable = handOverDurable(lifecycle(member));
    const inbox = `${this.link.inboxPrefix}.p${crypto.randomUUID()}`;
    const taken: Taken[] = [];
    return new Promise((ok) => {
      const sub = this.link.nc.subscribe(inbox, {
        callback: (_err, m) => {
          if (m.headers?.code !== undefined && m.headers.code !== 0) {
            if (m.headers.code === 100) return;
            sub.unsubscribe();
            ok(taken);
            return;
          }
          taken.push({
            entryId: m.headers?.get(HEADER.entry) ?? '',
            handOver: Number(m.headers?.get(HEADER.handOver)),
            ackSubject: m.reply ?? '',
            body: m.string(),
            redelivered: m.headers?.get(HEADER.redelivered) === '1',
            headers: m.headers,
          });
          if (taken.length < count) return;
          sub.unsubscribe();
          ok(taken);
        },
      });
      const body = JSON.stringify({ batch: count, expires: expiresMs * 1e6 });
      const subject = `$JS.API.CONSUMER.MSG.NEXT.${this.names.streams.dlv}.${durable}`;
      this.link.nc.publish(subject, body, { reply: inbox });
    });
  }

  /** An ack that the broker answers once it has counted it; a flush alone would not wait for that. */
  async ack(taken: readonly Taken[], body = ''): Promise<void> {
    await Promise.all(taken.map((t) => this.link.nc.request(t.ackSubject, body)));
  }

  /** Store ids in the member's store. */
  async inStore(member: string): Promise<string[]> {
    return this.#ids(this.names.streams.inbox, inboxSubject(this.names.prefix, lifecycle(member)));
  }

  async inHandOver(member: string): Promise<string[]> {
    return this.#ids(this.names.streams.dlv, `${this.names.prefix}.dlv.${member}`);
  }

  async #ids(stream: string, subject: string): Promise<string[]> {
    const ids: string[] = [];
    for (let from = 1; ; ) {
      const m = must(await this.api.nextOf(stream, subject, from));
      if (m === undefined) return ids;
      ids.push(m.header(HEADER.entry) ?? '');
      from = m.seq + 1;
    }
  }

  async close(): Promise<void> {
    for (const c of this.#closers.splice(0)) await c();
    this.publisher.close();
    await this.link.close();
  }
}

export interface Running {
  readonly reader: Reader;
  readonly events: string[];
  readonly link: Link;
  readonly kill: () => Promise<void>;
  readonly start: () => Promise<void>;
}

export interface Taken {
  readonly entryId: string;
  readonly handOver: number;
  readonly ackSubject: string;
  readonly body: string;
  readonly redelivered: boolean;
  readonly headers: MsgHdrs | undefined;
}

const connect = (nats: NatsProc): Promise<Link> =>
  openLink({ name: 'reader-test', servers: [nats.url], transport: { kind: 'plain' } });

export const startBroker = (): Promise<NatsProc> => startNats();
