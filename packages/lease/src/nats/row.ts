import {
  type ApiRefusal,
  Bucket,
  BucketView,
  JetStreamApi,
  type Link,
  Publisher,
  type PublishRefusal,
} from '@plane3/link';
import {
  done,
  leaseKey,
  leaseRowSchema,
  type Outcome,
  parseRecord,
  refused,
} from '@plane3/protocol';
import type { RowRefusal, RowSeen, StoredRow } from '../model.ts';
import type { BucketSettings, LeaseRowPort, ProbeSeen, RowNotice } from '../ports.ts';

const NS_PER_MS = 1e6;
const utf8 = new TextEncoder();

/** Beside the row, so that the daemon's right to write `lease.*` covers it; no lease row itself. */
export const probeKey = (shard: number): string => `lease.probe-${shard}`;

export interface NatsLeaseRowOptions {
  /** A connection of its own: a renewal must not queue behind copies. */
  readonly link: Link;
  /** Name of the lease bucket of the space. */
  readonly bucket: string;
  readonly shard: number;
}

/** The row in a key-value bucket whose max age is the TTL. Leader reads and raw compare-and-set. */
export class NatsLeaseRow implements LeaseRowPort {
  readonly probe = { write: () => this.#writeProbe(), read: () => this.#readProbe() };
  readonly #link: Link;
  readonly #bucket: Bucket;
  readonly #publisher: Publisher;
  readonly #api: JetStreamApi;
  readonly #key: string;
  readonly #probeKey: string;

  constructor(o: NatsLeaseRowOptions) {
    this.#link = o.link;
    this.#publisher = new Publisher(o.link);
    this.#bucket = new Bucket(o.link, this.#publisher, o.bucket);
    this.#api = new JetStreamApi(o.link);
    this.#key = leaseKey(o.shard);
    this.#probeKey = probeKey(o.shard);
  }

  async settings(): Promise<Outcome<BucketSettings, RowRefusal>> {
    const info = await this.#api.streamInfo(this.#bucket.stream);
    if (info.kind !== 'done') return fromApi(info);
    const { config } = info.value;
    return done({
      bucket: this.#bucket.name,
      ttlMs: config.max_age / NS_PER_MS,
      markerTtlMs: (config.subject_delete_marker_ttl ?? 0) / NS_PER_MS,
    });
  }

  async read(): Promise<Outcome<RowSeen | undefined, RowRefusal>> {
    const entry = await this.#bucket.get(this.#key);
    if (entry.kind !== 'done') return fromApi(entry);
    if (entry.value === undefined) return done(undefined);
    const { value, revision, time } = entry.value;
    return done({ row: parseRow(value), revision, ageMs: Math.max(0, Date.now() - msOf(time)) });
  }

  async write(row: StoredRow, expectedRevision: number): Promise<Outcome<number, RowRefusal>> {
    const body = utf8.encode(JSON.stringify(row));
    return fromPublish(await this.#bucket.put(this.#key, body, expectedRevision));
  }

  async remove(revision: number): Promise<Outcome<number, RowRefusal>> {
    return fromPublish(await this.#bucket.remove(this.#key, revision));
  }

  async watch(listener: (n: RowNotice) => void): Promise<Outcome<() => void, RowRefusal>> {
    const view = new BucketView(this.#link, this.#bucket.name, { parse: incarnationOf });
    const started = await view.start();
    if (started.kind !== 'done') {
      await view.stop();
      return fromApi(started);
    }
    const tell = (key: string, value: Incarnation | undefined, revision: number): void => {
      if (key !== this.#key) return;
      listener({ revision, removed: value === undefined, incarnation: value?.incarnation });
    };
    const unlisten = view.onChange(tell);
    return done(() => {
      unlisten();
      void view.stop();
    });
  }

  /** Nothing is written any more; what is open answers `unknown`. The link stays its owner's. */
  close(): void {
    this.#publisher.close();
  }

  async #writeProbe(): Promise<Outcome<number, RowRefusal>> {
    return fromPublish(await this.#bucket.put(this.#probeKey, utf8.encode('{}')));
  }

  async #readProbe(): Promise<Outcome<ProbeSeen | undefined, RowRefusal>> {
    const entry = await this.#bucket.get(this.#probeKey);
    if (entry.kind !== 'done') return fromApi(entry);
    const e = entry.value;
    return done(e === undefined ? undefined : { revision: e.revision, storedMs: msOf(e.time) });
  }
}

interface Incarnation {
  readonly incarnation: string | undefined;
}

/** Never undefined: a row that cannot be read is there all the same, and is not mine. */
const incarnationOf = (bytes: Uint8Array): Incarnation => ({
  incarnation: parseRow(bytes)?.incarnation,
});

const msOf = (time: string): number => Date.parse(time);

function parseRow(bytes: Uint8Array): StoredRow | undefined {
  const row = parseRecord(leaseRowSchema, bytes);
  if (row === undefined) return undefined;
  const attemptMs = row['attemptMs'];
  return { ...row, attemptMs: typeof attemptMs === 'number' ? attemptMs : -Infinity };
}

const API_REFUSALS = {
  'not-found': 'missing',
  'permission-denied': 'permission-denied',
  conflict: 'conflict',
  rejected: 'rejected',
} as const satisfies Record<ApiRefusal, RowRefusal>;

const PUBLISH_REFUSALS = {
  'wrong-sequence': 'conflict',
  'permission-denied': 'permission-denied',
  'no-stream': 'missing',
  'store-full': 'rejected',
  'too-large': 'rejected',
  rejected: 'rejected',
} as const satisfies Record<PublishRefusal, RowRefusal>;

type NotDone<R extends string> = Exclude<Outcome<never, R>, { kind: 'done' }>;

export const fromApi = (o: NotDone<ApiRefusal>): NotDone<RowRefusal> =>
  o.kind === 'refused' ? refused(API_REFUSALS[o.reason], o.detail) : o;

export const fromPublish = (o: Outcome<number, PublishRefusal>): Outcome<number, RowRefusal> =>
  o.kind === 'refused' ? refused(PUBLISH_REFUSALS[o.reason], o.detail) : o;
