import {
  type ConsumerConfig,
  type ConsumerInfo,
  JetStreamApi,
  type Link,
  type PublishAnswer,
  type Publisher,
  type StoredMessage,
} from '@plane3/link';
import {
  BROKER_HEADERS,
  done,
  FRAME_VERSION,
  HEADER,
  handOverDurable,
  handOverFenceSubject,
  handOverSubject,
  type Lifecycle,
  type LifecycleKey,
  lifecycleKey,
  type Outcome,
  parseLifecycle,
  parseMemberSubject,
  refused,
  rfc3339ToNs,
  type SpaceNames,
  streamIncarnation,
} from '@plane3/protocol';
import type {
  CopyToHandOver,
  FloorSeen,
  HandOver,
  HandOverAnswer,
  StoredCopy,
  StoreRefusal,
} from '../ports.ts';
import { inOurWords } from './refusals.ts';
import { Tap } from './tap.ts';

const NS_PER_MS = 1_000_000;
const ACK_PENDING_MAX = 1_000;
const WAITING_PULLS_MAX = 512;

export interface NatsHandOverOptions {
  /** The space account's connection. */
  readonly link: Link;
  readonly publisher: Publisher;
  readonly names: SpaceNames;
  readonly shard?: number;
  /** Of the members' durables. */
  readonly ackWaitMs: number;
  /** Copies expire by themselves after this, where the stream allows it. */
  readonly copyTtlMs: number;
}

/** The hand-over stream (wire contract sections 4 and 5). */
export class NatsHandOver implements HandOver {
  readonly #o: NatsHandOverOptions;
  readonly #api: JetStreamApi;
  readonly #tap: Tap;
  readonly #stream: string;
  readonly #fenceSubject: string;
  #fence = '0';
  #ttl: string | undefined;

  constructor(o: NatsHandOverOptions) {
    this.#o = o;
    this.#api = new JetStreamApi(o.link);
    this.#tap = new Tap(o.link, this.#api, o.names);
    this.#stream = o.names.streams.dlv;
    this.#fenceSubject = handOverFenceSubject(o.names.prefix, o.shard ?? 0);
  }

  useFence(fenceSeq: number): void {
    this.#fence = String(fenceSeq);
  }

  async open(): Promise<Outcome<readonly StoredCopy[], StoreRefusal>> {
    const info = await this.#api.streamInfo(this.#stream);
    if (info.kind !== 'done') return inOurWords(info);
    const seconds = Math.max(1, Math.ceil(this.#o.copyTtlMs / 1_000));
    this.#ttl = info.value.config.allow_msg_ttl === true ? `${seconds}s` : undefined;
    const copies: StoredCopy[] = [];
    const opened = await this.#tap.open((m, at) => {
      const c = this.#copyOf(m.subject, at.seq, at.storedNs, 0, (name) =>
        m.headers?.has(name) === true ? m.headers.get(name) : undefined,
      );
      if (c !== undefined) copies.push({ ...c, bytes: sizeOf(m.headers?.get(SIZE_HEADER)) });
    });
    return opened.kind === 'done' ? done(copies) : opened;
  }

  async close(): Promise<void> {
    this.#tap.close();
  }

  publish(c: CopyToHandOver, onAnswer: (answer: HandOverAnswer) => void): void {
    const { entry, handOver, incarnation } = c;
    const headers: [string, string][] = [
      [HEADER.msgId, `${entry.entryId}.h${handOver}.${incarnation}`],
      [HEADER.entry, entry.entryId],
      [HEADER.seq, String(entry.entry.seq)],
      [HEADER.frame, String(FRAME_VERSION)],
      [HEADER.handOver, String(handOver)],
      [HEADER.expectSubjectSeq, this.#fence],
      [HEADER.expectSubject, this.#fenceSubject],
    ];
    if (handOver > 1) headers.push([HEADER.redelivered, '1']);
    if (entry.signature !== undefined) headers.push([HEADER.signature, entry.signature]);
    if (this.#ttl !== undefined) headers.push([HEADER.ttl, this.#ttl]);
    const subject = `${this.#o.names.prefix}.dlv.${entry.entry.member}`;
    this.#o.publisher.publishWith(subject, entry.body, headers, (a) => onAnswer(answerOf(a)));
  }

  storedNs(copySeq: number): string | undefined {
    return this.#tap.timeOf(copySeq);
  }

  async readCopy(copySeq: number): Promise<Outcome<StoredCopy | undefined, StoreRefusal>> {
    const o = await this.#api.atSeq(this.#stream, copySeq);
    if (o.kind !== 'done') return inOurWords(o);
    return done(o.value === undefined ? undefined : this.#copyOfStored(o.value));
  }

  async removeCopy(copySeq: number): Promise<Outcome<boolean, StoreRefusal>> {
    this.#tap.forget(copySeq);
    return inOurWords(await this.#api.deleteSeq(this.#stream, copySeq));
  }

  async purge(member: LifecycleKey, belowSeq?: number): Promise<Outcome<number, StoreRefusal>> {
    const subject = this.#subjectOf(member);
    if (subject === undefined) return refused('rejected', 'not a lifecycle');
    return inOurWords(
      await this.#api.purge(this.#stream, {
        subject,
        ...(belowSeq === undefined ? {} : { upToSeq: belowSeq }),
      }),
    );
  }

  async isEmpty(member: LifecycleKey): Promise<Outcome<boolean, StoreRefusal>> {
    const subject = this.#subjectOf(member);
    if (subject === undefined) return refused('rejected', 'not a lifecycle');
    const o = await this.#api.lastOf(this.#stream, subject);
    return o.kind === 'done' ? done(o.value === undefined) : inOurWords(o);
  }

  async floorOf(member: LifecycleKey): Promise<Outcome<FloorSeen | undefined, StoreRefusal>> {
    const lifecycle = parseLifecycle(member);
    if (lifecycle === undefined) return refused('rejected', 'not a lifecycle');
    const o = await this.#api.consumerInfo(this.#stream, handOverDurable(lifecycle));
    if (o.kind === 'refused' && o.reason === 'not-found') return done(undefined);
    if (o.kind !== 'done') return inOurWords(o);
    const { config, ack_floor } = o.value;
    // A durable that began elsewhere has a floor that nobody acked.
    const proves = config.deliver_policy === 'all' && config.ack_policy === 'explicit';
    return done(proves ? { floor: ack_floor.stream_seq } : undefined);
  }

  async ensureDurable(
    member: LifecycleKey,
  ): Promise<Outcome<'present' | 'made' | 'repaired', StoreRefusal>> {
    const lifecycle = parseLifecycle(member);
    if (lifecycle === undefined) return refused('rejected', 'not a lifecycle');
    const name = handOverDurable(lifecycle);
    const wanted = this.#durableOf(lifecycle);
    const found = await this.#api.consumerInfo(this.#stream, name);
    if (found.kind === 'done') {
      const wrong = differing(found.value, wanted);
      if (wrong.length === 0) return done('present');
      if (wrong.some((k) => !CHANGEABLE.has(k)))
        return refused('rejected', `${name} has another ${wrong.join(', ')}`);
      const { ack_wait, max_deliver, max_ack_pending } = wanted;
      const o = await this.#api.consumerUpdate(this.#stream, name, {
        ...found.value.config,
        ack_wait,
        max_deliver,
        max_ack_pending,
      });
      return o.kind === 'done' ? done('repaired') : inOurWords(o);
    }
    if (found.kind !== 'refused' || found.reason !== 'not-found') return inOurWords(found);
    const o = await this.#api.consumerCreate(this.#stream, wanted);
    return o.kind === 'done' ? done('made') : inOurWords(o);
  }

  async incarnation(): Promise<Outcome<string, StoreRefusal>> {
    const o = await this.#api.streamInfo(this.#stream);
    return o.kind === 'done' ? done(streamIncarnation(o.value.created)) : inOurWords(o);
  }

  #subjectOf(member: LifecycleKey): string | undefined {
    const lifecycle = parseLifecycle(member);
    return lifecycle && handOverSubject(this.#o.names.prefix, lifecycle);
  }

  #durableOf(lifecycle: Lifecycle) {
    return {
      durable_name: handOverDurable(lifecycle),
      filter_subject: handOverSubject(this.#o.names.prefix, lifecycle),
      ack_policy: 'explicit',
      ack_wait: this.#o.ackWaitMs * NS_PER_MS,
      max_deliver: -1,
      max_ack_pending: ACK_PENDING_MAX,
      max_waiting: WAITING_PULLS_MAX,
      deliver_policy: 'all',
      replay_policy: 'instant',
    } as const satisfies Partial<ConsumerConfig>;
  }

  #copyOfStored(m: StoredMessage): StoredCopy | undefined {
    return this.#copyOf(m.subject, m.seq, rfc3339ToNs(m.time), m.body.length, (n) => m.header(n));
  }

  /** `undefined` for what no reader has written: it belongs to nobody and is left to expire. */
  #copyOf(
    subject: string,
    copySeq: number,
    storedNs: string,
    bytes: number,
    header: (name: string) => string | undefined,
  ): StoredCopy | undefined {
    const lifecycle = parseMemberSubject(this.#o.names.prefix, 'dlv', subject);
    const entryId = header(HEADER.entry);
    const handOver = Number(header(HEADER.handOver));
    if (lifecycle === undefined || entryId === undefined) return undefined;
    if (BROKER_HEADERS.some((name) => header(name) !== undefined)) return undefined;
    if (!Number.isSafeInteger(handOver) || handOver < 1) return undefined;
    return { member: lifecycleKey(lifecycle), copySeq, storedNs, entryId, handOver, bytes };
  }
}

/** The broker's note of the size in a headers-only delivery. */
const SIZE_HEADER = 'Nats-Msg-Size';
const sizeOf = (text: string | undefined): number => {
  const n = Number(text);
  return Number.isSafeInteger(n) && n > 0 ? n : 0;
};

const CHECKED = [
  'filter_subject',
  'ack_policy',
  'deliver_policy',
  'ack_wait',
  'max_deliver',
  'max_ack_pending',
] as const;
const CHANGEABLE = new Set<string>(['ack_wait', 'max_deliver', 'max_ack_pending']);

const differing = (
  found: ConsumerInfo,
  wanted: Readonly<Record<(typeof CHECKED)[number], unknown>>,
): string[] => CHECKED.filter((k) => found.config[k] !== wanted[k]);

function answerOf(a: PublishAnswer): HandOverAnswer {
  if (a.kind === 'unknown') return a;
  if (a.kind === 'done') return done({ copySeq: a.value.seq, duplicate: a.value.duplicate });
  if (a.reason === 'wrong-sequence') return refused('fence-lost', a.detail);
  if (a.reason === 'no-stream') return refused('missing', a.detail);
  if (a.reason === 'permission-denied') return refused('permission-denied', a.detail);
  return refused('rejected', `${a.reason} ${a.detail}`);
}
