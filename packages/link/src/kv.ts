import { bucketStream, bucketSubject, done, HEADER, type Outcome, refused } from '@plane3/protocol';
import { type ApiRefusal, JetStreamApi } from './api.ts';
import type { HeaderPairs } from './header-block.ts';
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
/** A creation over a marker that changes under it is tried this often. */
const CREATE_ATTEMPTS_MAX = 3;

/** A row that says "there is nothing": a KV delete or purge, or the broker's mark of an expiry. */
export const isDeletion = (header: (name: string) => string | undefined): boolean => {
  const operation = header(OPERATION);
  return operation === 'DEL' || operation === 'PURGE' || header(MARKER_REASON) !== undefined;
};

/**
 * Leader reads and compare-and-set on one bucket, by the KV subjects `$KV.<bucket>.<key>`. A
 * revision is the sequence in the bucket's stream.
 */
export class Bucket {
  readonly #api: JetStreamApi;
  readonly #publisher: Publisher;
  readonly #bucket: string;
  readonly #stream: string;

  constructor(link: Link, publisher: Publisher | undefined, bucket: string) {
    this.#api = new JetStreamApi(link);
    this.#publisher = publisher ?? new Publisher(link);
    this.#bucket = bucket;
    this.#stream = bucketStream(bucket);
  }

  /** `undefined` = proved absent, or deleted. */
  async get(key: string): Promise<Outcome<KvEntry | undefined, ApiRefusal>> {
    const last = await this.#last(key);
    if (last.kind !== 'done') return last;
    const m = last.value;
    if (m === undefined || isDeletion((name) => m.header(name))) return done(undefined);
    return done({ key, value: m.body, revision: m.seq, time: m.time });
  }

  /** Of whatever was written last under the key, a deletion too; 0 when nothing is stored. */
  async lastRevision(key: string): Promise<Outcome<number, ApiRefusal>> {
    const last = await this.#last(key);
    return last.kind === 'done' ? done(last.value?.seq ?? 0) : last;
  }

  /**
   * Writes and answers the new revision. With `expectedRevision` only if the key's last revision is
   * that one, else `wrong-sequence`. 0 = there must be no value: nothing stored, or a deletion.
   * `ttlSeconds` needs a bucket that allows it; every write sets it anew.
   */
  async put(
    key: string,
    value: Uint8Array,
    expectedRevision?: number,
    o: { readonly ttlSeconds?: number } = {},
  ): Promise<Outcome<number, PublishRefusal>> {
    const ttl: HeaderPairs = o.ttlSeconds === undefined ? [] : [[HEADER.ttl, `${o.ttlSeconds}s`]];
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
      if (m !== undefined && !isDeletion((name) => m.header(name))) return written;
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
    more: HeaderPairs,
  ): Promise<Outcome<number, PublishRefusal>> {
    const headers: HeaderPairs =
      expected === undefined ? more : [[HEADER.expectSubjectSeq, String(expected)], ...more];
    const subject = bucketSubject(this.#bucket, key);
    const stored = await this.#publisher.publish(subject, value, headers);
    if (stored.kind !== 'done') return stored;
    if (stored.value.stream !== this.#stream)
      return refused('no-stream', `${subject} is stored in ${stored.value.stream}`);
    return done(stored.value.seq);
  }

  #last(key: string): Promise<Outcome<StoredMessage | undefined, ApiRefusal>> {
    return this.#api.lastOf(this.#stream, bucketSubject(this.#bucket, key));
  }
}
