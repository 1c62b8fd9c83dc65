import {
  type ApiRefusal,
  Bucket,
  BucketView,
  JetStreamApi,
  type Link,
  type Publisher,
  type PublishRefusal,
} from '@plane3/link';
import { bucketStream, done, type Outcome, refused, unknown } from '@plane3/protocol';
import type { MembershipRow, StoredRow, StoreRefusal, WriteRefusal } from '../membership.ts';
import type { MembershipStore, StoreSink } from '../ports.ts';
import { decodeRow, encodeRow } from '../row.ts';

export interface NatsMembershipStoreOptions {
  readonly link: Link;
  readonly publisher: Publisher;
  /** `cotal_members_<s>`, in the vault. */
  readonly bucket: string;
  readonly checkEveryMs?: number;
  readonly freshnessMs?: number;
}

/** Between two questions whether the bucket is still the same, after an unanswered one. */
const VERIFY_AGAIN_MS = 250;

/**
 * Rows in the members bucket. A view that had to load anew proves nothing by itself: its bucket
 * may have been recreated, and then "gone" would mean nothing. What it tells is held back until
 * the leader has named the creation time that was loaded first.
 */
export class NatsMembershipStore implements MembershipStore {
  readonly #api: JetStreamApi;
  readonly #bucket: Bucket;
  readonly #stream: string;
  readonly #view: BucketView<MembershipRow>;
  #sink: StoreSink | undefined;
  #created: string | undefined;
  #verifiedLoads = 0;
  #verifying = false;
  #closed = false;
  #recreated = false;
  readonly #held: (() => void)[] = [];
  #timer: NodeJS.Timeout | undefined;

  constructor(o: NatsMembershipStoreOptions) {
    this.#api = new JetStreamApi(o.link);
    this.#bucket = new Bucket(o.link, o.publisher, o.bucket);
    this.#stream = bucketStream(o.bucket);
    this.#view = new BucketView(o.link, o.bucket, {
      parse: (bytes, key) => decodeRow(key, bytes),
      ...(o.checkEveryMs === undefined ? {} : { checkEveryMs: o.checkEveryMs }),
      ...(o.freshnessMs === undefined ? {} : { freshnessMs: o.freshnessMs }),
    });
  }

  /** Rows of the bucket that are none: unreadable, or made by the broker out of an answer. */
  get foreign(): number {
    return this.#view.foreign;
  }

  async load(sink: StoreSink): Promise<Outcome<readonly StoredRow[], StoreRefusal>> {
    const info = await this.#api.streamInfo(this.#stream);
    if (info.kind !== 'done') return translateRead(info);
    const started = await this.#view.start();
    if (started.kind !== 'done') return translateRead(started);
    // From here to the end of the snapshot nothing else runs.
    this.#created = info.value.created;
    this.#sink = sink;
    this.#verifiedLoads = this.#view.loads;
    this.#view.onChange((key, row, revision) => this.#tell(() => sink.changed(key, row, revision)));
    this.#view.onState(() => this.#isVerified());
    return done(
      Array.from(this.#view.entries(), ([, r]) => ({ row: r.value, revision: r.revision })),
    );
  }

  async read(key: string): Promise<Outcome<StoredRow | undefined, StoreRefusal>> {
    const o = await this.#bucket.get(key);
    if (o.kind !== 'done') return translateRead(o);
    if (o.value === undefined) return done(undefined);
    const row = decodeRow(key, o.value.value);
    if (row === undefined) return refused('malformed', key);
    return done({ row, revision: o.value.revision });
  }

  async write(
    key: string,
    row: MembershipRow,
    expected: number,
  ): Promise<Outcome<number, WriteRefusal>> {
    return translateWrite(await this.#bucket.put(key, encodeRow(row), expected));
  }

  async remove(key: string, expected: number): Promise<Outcome<number, WriteRefusal>> {
    return translateWrite(await this.#bucket.remove(key, expected));
  }

  async lastSeq(): Promise<Outcome<number, StoreRefusal>> {
    const info = await this.#api.streamInfo(this.#stream);
    if (info.kind !== 'done') return translateRead(info);
    if (this.#created !== undefined && !this.#isSame(info.value.created))
      return unknown('the bucket was recreated');
    return done(info.value.state.last_seq);
  }

  isCurrent(): boolean {
    return this.#isVerified() && this.#view.state === 'current';
  }

  currentAsOfMs(): number {
    return this.#view.currentAsOfMs;
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer);
    this.#held.length = 0;
    await this.#view.stop();
  }

  #tell(change: () => void): void {
    if (this.#closed || this.#recreated) return;
    if (this.#isVerified()) change();
    else this.#held.push(change);
  }

  /** Whether the contents are those of the bucket that was loaded first; asks if not known. */
  #isVerified(): boolean {
    if (this.#recreated) return false;
    if (this.#held.length === 0 && this.#view.loads === this.#verifiedLoads) return true;
    if (!this.#verifying && !this.#closed && this.#created !== undefined) void this.#verify();
    return false;
  }

  async #verify(): Promise<void> {
    this.#verifying = true;
    const { loads } = this.#view;
    const info = await this.#api.streamInfo(this.#stream);
    this.#verifying = false;
    if (this.#closed) return;
    if (info.kind !== 'done') {
      this.#timer = setTimeout(() => this.#isVerified(), VERIFY_AGAIN_MS);
      this.#timer.unref();
      return;
    }
    if (!this.#isSame(info.value.created)) return;
    this.#verifiedLoads = loads;
    if (this.#view.loads !== loads) return void this.#isVerified();
    for (const change of this.#held.splice(0)) change();
  }

  #isSame(created: string): boolean {
    if (created === this.#created) return true;
    if (!this.#recreated) {
      this.#recreated = true;
      this.#held.length = 0;
      this.#sink?.recreated();
    }
    return false;
  }
}

function translateRead(
  o: Exclude<Outcome<unknown, ApiRefusal>, { kind: 'done' }>,
): Exclude<Outcome<never, StoreRefusal>, { kind: 'done' }> {
  if (o.kind === 'unknown') return o;
  if (o.reason === 'not-found') return refused('missing', o.detail);
  return refused(o.reason === 'conflict' ? 'rejected' : o.reason, o.detail);
}

function translateWrite(o: Outcome<number, PublishRefusal>): Outcome<number, WriteRefusal> {
  if (o.kind !== 'refused') return o;
  if (o.reason === 'wrong-sequence') return refused('conflict', o.detail);
  return refused(o.reason === 'no-stream' ? 'missing' : o.reason, o.detail);
}
