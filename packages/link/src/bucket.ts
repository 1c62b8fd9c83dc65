import {
  BROKER_HEADERS,
  bucketStream,
  bucketSubject,
  done,
  HEADER,
  type Outcome,
  refused,
} from '@plane3/protocol';
import { type ApiRefusal, JetStreamApi } from './api.ts';
import type { HeaderList } from './header-block.ts';
import type { Link } from './link.ts';
import { Publisher, type PublishRefusal } from './publisher.ts';
import type { StoredMessage } from './stored-message.ts';

export interface KvEntry {
  readonly key: string;
  readonly value: Uint8Array;
  readonly revision: number;
  /** When it was written, RFC 3339 with nanoseconds. */
  readonly time: string;
}

const OPERATION = 'KV-Operation';
const MARKER_REASON = 'Nats-Marker-Reason';
type WithHeaders = Pick<StoredMessage, 'header'>;
/** A creation over a marker that changes under it is tried this often. */
const CREATE_ATTEMPTS_MAX = 3;

/** A row that stands for nothing: a KV delete or purge, or the broker's mark of an expiry. */
export const isMarker = (m: WithHeaders): boolean =>
  m.header(OPERATION) !== undefined || m.header(MARKER_REASON) !== undefined;

/**
 * A row that bears headers which only the broker sets: it is one of the broker's own answers, put
 * there through the reply subject of somebody's publish. Nobody wrote it as a row.
 */
export const isBrokerMade = (m: WithHeaders): boolean =>
  BROKER_HEADERS.some((name) => m.header(name) !== undefined);

/**
 * Leader reads and compare-and-set on one bucket, by the KV subjects `$KV.<bucket>.<key>`. A
 * revision is the sequence in the bucket's stream.
 */
export class Bucket {
  readonly name: string;
  readonly stream: string;
  readonly #api: JetStreamApi;
  readonly #publisher: Publisher;

  constructor(link: Link, publisher: Publisher | undefined, name: string) {
    this.#api = new JetStreamApi(link);
    this.#publisher = publisher ?? new Publisher(link);
    this.name = name;
    this.stream = bucketStream(name);
  }

  /** `undefined` = proved absent, or deleted. */
  async get(key: string): Promise<Outcome<KvEntry | undefined, ApiRefusal>> {
    const last = await this.#last(key);
    if (last.kind !== 'done') return last;
    const m = last.value;
    if (m === undefined || isMarker(m)) return done(undefined);
    return done({ key, value: m.body, revision: m.seq, time: m.time });
  }

  /** Of whatever was written last under the key, a deletion too; 0 when nothing is stored. */
  async lastRevision(key: string): Promise<Outcome<number, ApiRefusal>> {
    const last = await this.#last(key);
    return last.kind === 'done' ? done(last.value?.seq ?? 0) : last;
  }

  /**
   * Writes and answers the new revision. With `expectedRevision` only if the key's last revision
   * is that one, else `wrong-sequence`. 0 = there must be no value: nothing stored, or a
   * deletion. `ttlSeconds` needs a bucket that allows it; every write sets it anew.
   */
  async put(
    key: string,
    value: Uint8Array,
    expectedRevision?: number,
    o: { readonly ttlSeconds?: number } = {},
  ): Promise<Outcome<number, PublishRefusal>> {
    const ttl: HeaderList = o.ttlSeconds === undefined ? [] : [[HEADER.ttl, `${o.ttlSeconds}s`]];
    let expected = expectedRevision;
    for (let attempt = 1; ; attempt++) {
      const written = await this.#write(key, value, expected, ttl);
      const refusedAsExisting = written.kind === 'refused' && written.reason === 'wrong-sequence';
      if (!refusedAsExisting || expectedRevision !== 0 || attempt === CREATE_ATTEMPTS_MAX)
        return written;
      const last = await this.#last(key);
      if (last.kind === 'unknown') return last;
      if (last.kind === 'refused') return written;
      const m = last.value;
      if (m !== undefined && !isMarker(m)) return written;
      expected = m?.seq ?? 0;
    }
  }

  /** Writes a KV delete marker; with `expectedRevision` by compare-and-set. */
  remove(key: string, expectedRevision?: number): Promise<Outcome<number, PublishRefusal>> {
    return this.#write(key, new Uint8Array(0), expectedRevision, [[OPERATION, 'DEL']]);
  }

  async #write(
    key: string,
    value: Uint8Array,
    expected: number | undefined,
    more: HeaderList,
  ): Promise<Outcome<number, PublishRefusal>> {
    const headers: HeaderList =
      expected === undefined ? more : [[HEADER.expectSubjectSeq, String(expected)], ...more];
    const subject = bucketSubject(this.name, key);
    const stored = await this.#publisher.publish(subject, value, headers);
    if (stored.kind !== 'done') return stored;
    if (stored.value.stream !== this.stream)
      return refused('no-stream', `${subject} is stored in ${stored.value.stream}`);
    return done(stored.value.seq);
  }

  #last(key: string): Promise<Outcome<StoredMessage | undefined, ApiRefusal>> {
    return this.#api.lastOf(this.stream, bucketSubject(this.name, key));
  }
}
