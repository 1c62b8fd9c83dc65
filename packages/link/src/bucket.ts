import {
  BROKER_HEADERS,
  bucketStream,
  bucketSubject,
  done,
  type Outcome,
  refused,
} from '@plane3/protocol';
import { type ApiRefusal, JetStreamApi, type StoredMessage } from './api.ts';
import type { Link } from './link.ts';
import type { HeaderList, Publisher, PublishRefusal } from './publisher.ts';

export interface KvEntry {
  readonly key: string;
  readonly value: Uint8Array;
  /** Stream sequence of this value: what compare-and-set compares with. */
  readonly revision: number;
  readonly time: string;
}

export const OPERATION_HEADER = 'KV-Operation';
export const MARKER_HEADER = 'Nats-Marker-Reason';

/** A marker stands where a value was deleted, purged or expired. */
export const isMarker = (m: Pick<StoredMessage, 'header'>): boolean =>
  m.header(OPERATION_HEADER) !== undefined || m.header(MARKER_HEADER) !== undefined;

/** A row that the broker made out of one of its own answers; nobody wrote it as a row. */
export const isBrokerMade = (m: Pick<StoredMessage, 'header'>): boolean =>
  BROKER_HEADERS.some((h) => m.header(h) !== undefined);

/** Leader reads and compare-and-set writes of one bucket. */
export class Bucket {
  readonly name: string;
  readonly stream: string;
  readonly #api: JetStreamApi;
  readonly #publisher: Publisher;

  constructor(link: Link, publisher: Publisher, name: string) {
    this.name = name;
    this.stream = bucketStream(name);
    this.#api = new JetStreamApi(link);
    this.#publisher = publisher;
  }

  /** `undefined` is proved absence, a marker included. */
  async get(key: string): Promise<Outcome<KvEntry | undefined, ApiRefusal>> {
    const o = await this.#api.lastOf(this.stream, bucketSubject(this.name, key));
    if (o.kind !== 'done') return o;
    const m = o.value;
    if (m === undefined || isMarker(m)) return done(undefined);
    return done({ key, value: m.body, revision: m.seq, time: m.time });
  }

  /**
   * Writes `value`. `expected` 0: the key must not exist (a marker counts as absent); a number:
   * its revision must still be that one; undefined: whatever is there. Answers the new revision.
   */
  async put(
    key: string,
    value: Uint8Array,
    expected?: number,
    o: { readonly ttlSeconds?: number } = {},
  ): Promise<Outcome<number, PublishRefusal>> {
    const ttl: HeaderList = o.ttlSeconds === undefined ? [] : [['Nats-TTL', `${o.ttlSeconds}s`]];
    const first = await this.#write(key, value, expected, ttl);
    if (expected !== 0 || first.kind !== 'refused' || first.reason !== 'wrong-sequence')
      return first;
    const last = await this.#api.lastOf(this.stream, bucketSubject(this.name, key));
    if (last.kind === 'unknown') return last;
    if (last.kind === 'refused') return refused('rejected', last.detail);
    if (last.value === undefined || !isMarker(last.value)) return first;
    return this.#write(key, value, last.value.seq, ttl);
  }

  /** Leaves a delete marker, by compare-and-set where `expected` is given. */
  remove(key: string, expected?: number): Promise<Outcome<number, PublishRefusal>> {
    return this.#write(key, new Uint8Array(), expected, [[OPERATION_HEADER, 'DEL']]);
  }

  async #write(
    key: string,
    value: Uint8Array,
    expected: number | undefined,
    extra: HeaderList,
  ): Promise<Outcome<number, PublishRefusal>> {
    const cas: HeaderList =
      expected === undefined ? [] : [['Nats-Expected-Last-Subject-Sequence', String(expected)]];
    const headers = [...cas, ...extra];
    const subject = bucketSubject(this.name, key);
    const o = await this.#publisher.publish(
      subject,
      value,
      headers.length > 0 ? headers : undefined,
    );
    return o.kind === 'done' ? done(o.value.seq) : o;
  }
}
