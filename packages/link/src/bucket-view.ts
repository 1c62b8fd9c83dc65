import { bucketStream, bucketSubject, done, type Outcome, unknown } from '@plane3/protocol';
import { type ApiRefusal, JetStreamApi } from './api.ts';
import type { Link } from './link.ts';
import { ViewFeed } from './view-feed.ts';
import { type ViewRow, ViewRows } from './view-rows.ts';

/**
 * - `loading`: never yet complete; says nothing about what is absent.
 * - `current`: proved to be complete by the stream's leader within the freshness.
 * - `stale`: complete once, not proved lately; the contents are those of then.
 */
export type ViewState = 'loading' | 'current' | 'stale' | 'stopped';

export interface ViewOptions<T> {
  /** `undefined`: malformed. Such a row counts as absent, also where a good one stood before. */
  readonly parse: (bytes: Uint8Array, key: string) => T | undefined;
  /** Keys to follow, with wildcards as in subjects. Default all. */
  readonly keyFilter?: string;
  /** Default 1 s. */
  readonly checkEveryMs?: number;
  /** Default 5 s. */
  readonly freshnessMs?: number;
}

const CHECK_EVERY_MS = 1_000;
const FRESHNESS_MS = 5_000;
/** A load may pause this long between two rows. */
const LOAD_SILENCE_MAX_MS = 5_000;
const BACK_OFF_MIN_MS = 100;
const BACK_OFF_MAX_MS = 5_000;
/** Rows that vanish without a marker (age, purge) make it load anew at most this often. */
const VANISHED_SPACING_MS = 1_000;
/** Messages that the consumer has delivered may be on their way for this long. */
const ON_THE_WAY_MAX_MS = 500;
/** After this silence in a load the consumer is asked whether anything is left. */
const LOAD_ASK_AFTER_MS = 250;
/** `waitFor` asks for a check at most this often. */
const HURRY_EVERY_MS = 50;

/**
 * The whole of a bucket in memory, followed by one consumer. It knows how old it is: with every
 * check the stream's leader says how far the stream goes, and the view is as of the moment of
 * that question once everything up to there is applied. It also notices a bucket that was
 * recreated, rows that went without a marker, and a consumer that is gone; then it loads
 * everything anew, one load at a time and with back-off, while the old contents stay readable.
 */
export class BucketView<T> {
  readonly #link: Link;
  readonly #api: JetStreamApi;
  readonly #stream: string;
  readonly #whole: boolean;
  readonly #feed: ViewFeed;
  readonly #rows: ViewRows<T>;
  readonly #checkEveryMs: number;
  readonly #freshnessMs: number;
  readonly #stateListeners = new Set<(s: ViewState) => void>();
  readonly #waiters = new Set<() => void>();
  #ticker: NodeJS.Timeout | undefined;
  #running: Promise<void> | undefined;
  #unlisten: () => void = () => {};
  #wake: () => void = () => {};
  /** Ends the pause before a check, but never a back-off. */
  #hurry: () => void = () => {};
  #created = '';
  #asOfMs = Number.NEGATIVE_INFINITY;
  /** A leader's answer that the contents have not reached yet. */
  #claim: { readonly lastSeq: number; readonly atMs: number } | undefined;
  #lost: string | undefined;
  /** Since when nothing has come although the consumer has delivered more. */
  #behind: { readonly received: number; readonly sinceMs: number } | undefined;
  #vanishedMs = Number.NEGATIVE_INFINITY;
  #announced: ViewState = 'loading';
  #loaded = false;
  #stopped = false;
  /** How often it began to load. */
  loads = 0;
  /** Why it loaded anew last. */
  lastLoss = '';

  constructor(link: Link, bucket: string, o: ViewOptions<T>) {
    this.#link = link;
    this.#api = new JetStreamApi(link);
    this.#stream = bucketStream(bucket);
    this.#whole = o.keyFilter === undefined;
    const prefix = bucketSubject(bucket, '');
    const filter = o.keyFilter ?? '>';
    this.#feed = new ViewFeed(link, this.#api, { stream: this.#stream, prefix, filter });
    this.#rows = new ViewRows(o.parse, (fn, x) => link.guard(`view of ${bucket}`, fn, x));
    this.#checkEveryMs = o.checkEveryMs ?? CHECK_EVERY_MS;
    this.#freshnessMs = o.freshnessMs ?? FRESHNESS_MS;
  }

  /**
   * Loads everything and answers when it is complete, or why it cannot be. Nothing runs after an
   * answer other than `done`; it may be called again.
   */
  async start(): Promise<Outcome<void, ApiRefusal>> {
    if (this.#stopped || this.#running !== undefined) return unknown('started or stopped before');
    const loaded = await this.#load();
    if (loaded.kind !== 'done') {
      await this.#feed.close();
      return loaded;
    }
    this.#unlisten = this.#link.onRestored(() => this.#lose('reconnected'));
    const tickMs = Math.min(this.#checkEveryMs, this.#freshnessMs / 4);
    this.#ticker = setInterval(() => this.#announce(), tickMs);
    this.#ticker.unref();
    this.#running = this.#run();
    return loaded;
  }

  get(key: string): ViewRow<T> | undefined {
    return this.#rows.get(key);
  }
  entries(): IterableIterator<[string, ViewRow<T>]> {
    return this.#rows.entries();
  }
  get size(): number {
    return this.#rows.size;
  }
  /** Rows seen that are none: unreadable, or made by the broker. They count as absent. */
  get foreign(): number {
    return this.#rows.foreign;
  }
  /** Every change up to this sequence of the bucket's stream is applied. */
  get revision(): number {
    return this.#rows.revision;
  }
  /** `performance.now()` of the moment that the contents are proved for. */
  get currentAsOfMs(): number {
    return this.#asOfMs;
  }

  get state(): ViewState {
    if (this.#stopped) return 'stopped';
    if (!this.#loaded) return 'loading';
    return performance.now() - this.#asOfMs <= this.#freshnessMs ? 'current' : 'stale';
  }

  /** True when everything up to `revision` is applied; false after the time or a stop. */
  async waitFor(revision: number, timeoutMs: number): Promise<boolean> {
    const end = performance.now() + timeoutMs;
    for (;;) {
      if (this.#stopped) return false;
      if (this.#loaded && this.#rows.revision >= revision) return true;
      const leftMs = end - performance.now();
      if (leftMs <= 0) return false;
      await this.#changeWithin(Math.min(leftMs, HURRY_EVERY_MS));
      this.#hurry(); // with a filter, or after a removal, only a check can tell
    }
  }

  /** `value` is `undefined` when the key went. Called after the contents have changed. */
  onChange(listener: (key: string, value: T | undefined, revision: number) => void): () => void {
    return this.#rows.onChange(listener);
  }

  onState(listener: (state: ViewState) => void): () => void {
    this.#stateListeners.add(listener);
    return () => void this.#stateListeners.delete(listener);
  }

  /** Stops following; the contents stay readable. */
  async stop(): Promise<void> {
    if (this.#stopped) return;
    this.#stopped = true;
    this.#unlisten();
    clearInterval(this.#ticker);
    this.#announce();
    this.#wake();
    this.#notifyWaiters();
    await this.#running;
    await this.#feed.close();
  }

  async #run(): Promise<void> {
    let failures = 0;
    while (!this.#stopped) {
      if (this.#lost === undefined) {
        const pause = this.#sleep(this.#checkEveryMs);
        this.#hurry = this.#wake;
        await pause;
        this.#hurry = () => {};
        if (!this.#stopped && this.#lost === undefined && this.#link.connected) await this.#check();
        continue;
      }
      this.lastLoss = this.#lost;
      const loaded = this.#link.connected ? await this.#load() : unknown('disconnected');
      if (loaded.kind === 'done') {
        failures = 0;
        continue;
      }
      this.#lost ??= loaded.kind === 'unknown' ? loaded.cause : loaded.reason;
      const delayMs = Math.min(BACK_OFF_MIN_MS * 2 ** failures++, BACK_OFF_MAX_MS);
      await this.#sleep(delayMs * (1 + Math.random() / 2));
    }
  }

  /** The full contents, beside the old ones until they are complete. */
  async #load(): Promise<Outcome<void, ApiRefusal>> {
    this.loads++;
    this.#lost = undefined;
    this.#claim = undefined;
    this.#behind = undefined;
    const atMs = performance.now();
    const info = await this.#api.streamInfo(this.#stream);
    if (info.kind !== 'done') return info;
    const filling = this.#rows.refill();
    const progress = { seen: 0, atEnd: false, lastMs: performance.now() };
    const opened = await this.#feed.open(
      (d) => {
        progress.seen++;
        progress.atEnd = d.pending === 0;
        progress.lastMs = performance.now();
        filling.apply(d.row);
        if (filling.live) this.#onLive();
        this.#notifyWaiters();
      },
      () => this.#lose('messages missing'),
    );
    if (opened.kind !== 'done') return opened;
    const filled = await this.#filled(opened.value, progress);
    if (filled.kind !== 'done') return filled;
    this.#created = info.value.created;
    this.#loaded = true;
    // The consumer is younger than this answer: everything up to there is applied.
    filling.complete(info.value.state.last_seq);
    this.#prove(atMs);
    this.#notifyWaiters();
    return filled;
  }

  /** Waits for the first part. Some of it may go before it is delivered, so the end counts too. */
  async #filled(
    expected: number,
    progress: { readonly seen: number; readonly atEnd: boolean; readonly lastMs: number },
  ): Promise<Outcome<void, ApiRefusal>> {
    while (progress.seen < expected && !progress.atEnd) {
      if (this.#stopped || this.#lost !== undefined) return unknown(this.#lost ?? 'stopped');
      const silentMs = performance.now() - progress.lastMs;
      if (silentMs > LOAD_SILENCE_MAX_MS) return unknown('load stalled');
      if (silentMs > LOAD_ASK_AFTER_MS) {
        const at = await this.#feed.progress();
        if (at.kind === 'refused') return at;
        const over = at.kind === 'done' && at.value.pending === 0;
        if (over && at.value.delivered === this.#feed.received) break;
      }
      await this.#changeWithin(HURRY_EVERY_MS);
    }
    return done(undefined);
  }

  #onLive(): void {
    const claim = this.#claim;
    if (claim !== undefined && this.#rows.revision >= claim.lastSeq) this.#prove(claim.atMs);
  }

  /** Asks the leader how far the stream goes, and finds out why the contents are not there. */
  async #check(): Promise<void> {
    const atMs = performance.now();
    const { highest } = this.#rows; // of before the question: its answer cannot be below
    const info = await this.#api.streamInfo(this.#stream);
    if (info.kind === 'refused' && info.reason === 'not-found') return this.#lose('stream gone');
    if (info.kind !== 'done' || this.#lost !== undefined) return;
    const { created, state } = info.value;
    if (created !== this.#created) return this.#lose('recreated');
    const reached = this.#rows.revision;
    if (state.last_seq < highest) return this.#lose('the stream went back');
    if (reached < state.last_seq) {
      this.#claim = { lastSeq: state.last_seq, atMs };
      return this.#checkFeed(state.last_seq, atMs);
    }
    if (reached === state.last_seq && this.#whole && (state.num_subjects ?? 0) !== this.#rows.known)
      return this.#loseVanished(atMs); // not complete, so nothing is proved
    this.#prove(atMs);
  }

  /**
   * Behind: because of keys that are not followed or are gone again, or because of the consumer.
   */
  async #checkFeed(lastSeq: number, atMs: number): Promise<void> {
    const progress = await this.#feed.progress();
    if (progress.kind === 'refused' && progress.reason === 'not-found')
      return this.#lose('consumer gone');
    if (progress.kind !== 'done' || this.#lost !== undefined) return;
    if (this.#rows.revision >= lastSeq) return; // arrived meanwhile
    const { received } = this.#feed;
    if (progress.value.pending === 0 && progress.value.delivered === received) {
      this.#rows.reach(lastSeq); // nothing up to there is for us
      this.#prove(atMs);
      this.#notifyWaiters();
      return;
    }
    if (this.#behind?.received !== received) {
      this.#behind = { received, sinceMs: atMs };
    } else if (atMs - this.#behind.sinceMs > ON_THE_WAY_MAX_MS) {
      this.#lose('messages missing');
    }
  }

  #loseVanished(atMs: number): void {
    if (atMs - this.#vanishedMs < VANISHED_SPACING_MS) return;
    this.#vanishedMs = atMs;
    this.#lose('rows vanished');
  }

  #lose(why: string): void {
    this.#lost ??= why;
    this.#wake();
    this.#notifyWaiters();
  }

  #prove(atMs: number): void {
    this.#asOfMs = Math.max(this.#asOfMs, atMs);
    this.#claim = undefined;
    this.#behind = undefined;
    this.#announce();
  }

  #announce(): void {
    const { state } = this;
    if (state === this.#announced) return;
    this.#announced = state;
    for (const listener of [...this.#stateListeners])
      this.#link.guard('view state', listener, state);
  }

  #notifyWaiters(): void {
    for (const wake of [...this.#waiters]) wake();
  }

  #changeWithin(timeoutMs: number): Promise<void> {
    return new Promise((ok) => {
      const finish = (): void => {
        clearTimeout(timer);
        this.#waiters.delete(finish);
        ok();
      };
      const timer = setTimeout(finish, timeoutMs);
      this.#waiters.add(finish);
    });
  }

  #sleep(timeoutMs: number): Promise<void> {
    return new Promise((ok) => {
      const finish = (): void => {
        clearTimeout(timer);
        this.#wake = () => {};
        ok();
      };
      const timer = setTimeout(finish, timeoutMs);
      this.#wake = finish;
    });
  }
}
