import { createHash } from 'node:crypto';
import type { DurableCopy, LiveCopy } from './copies.ts';
import { Dedup, type Seen } from './dedup.ts';
import type { Counts, Notice } from './model.ts';
import { PostKeys } from './post-key.ts';

/** Live copies that wait for the host at most; the oldest go first, with a notice. */
const LIVE_BUFFER_MAX = 1_000;
/** Notices that wait at most. */
const NOTICES_MAX = 256;

/** A copy on its way to the host. */
export interface Waiting {
  /** A live copy becomes durable when its durable copy joins it. */
  kind: 'durable' | 'live';
  seq: number | undefined;
  redelivered: boolean;
  readonly copy: LiveCopy | DurableCopy;
  readonly seen: Seen;
}

export type Put =
  /** Acknowledged once the host confirms the post; given back at close. */
  | { readonly kind: 'held'; readonly seen: Seen }
  /** The host confirmed the post before. */
  | { readonly kind: 'acknowledge'; readonly token: string }
  | { readonly kind: 'ignored' };

const NO_COUNTS: Counts = {
  live: 0,
  durable: 0,
  merged: 0,
  acknowledgedAgain: 0,
  liveDropped: 0,
  liveInvalid: 0,
  framesTerminated: 0,
  afterLeave: 0,
  presenceFailed: 0,
};

/**
 * What has arrived and is not with the host yet. Durable copies come only as many as were pulled
 * for a read, so no flood of live posts can displace one; live copies are bounded here.
 */
export class Mailbox {
  readonly #dedup = new Dedup();
  readonly #keys = new PostKeys();
  readonly #durable: Waiting[] = [];
  #live: Waiting[] = [];
  readonly #overflow = new Map<string, number>();
  readonly #notices: Notice[] = [];
  readonly #left = new Set<string>();
  readonly counts: Counts = { ...NO_COUNTS };

  get durableWaiting(): number {
    return this.#durable.length;
  }
  get liveWaiting(): number {
    return this.#live.length;
  }
  get empty(): boolean {
    return (
      this.#durable.length + this.#live.length + this.#notices.length + this.#overflow.size === 0
    );
  }

  putLive(copy: LiveCopy): void {
    const key = this.#keyOf(copy, (digest) => this.#keys.idlessLive(digest));
    const verdict = this.#dedup.arrive({ path: 'live', key, again: false });
    if (verdict.kind !== 'new') return;
    this.counts.live++;
    this.#live.push({ kind: 'live', seq: undefined, redelivered: false, copy, seen: verdict.seen });
    if (this.#live.length > LIVE_BUFFER_MAX) this.#dropOldestLive();
  }

  /** What is to become of the copy's acknowledgement, which is `token`. */
  putDurable(copy: DurableCopy, token: string): Put {
    if (this.#left.has(copy.channel)) {
      // Left here while the daemon may not know yet: neither surfaced nor acknowledged.
      this.counts.afterLeave++;
      return { kind: 'ignored' };
    }
    const key = this.#keyOf(copy, (digest) => this.#keys.idlessDurable(digest, copy.seq));
    const verdict = this.#dedup.arrive({ path: 'durable', key, token, again: copy.redelivered });
    switch (verdict.kind) {
      case 'dropped':
        return { kind: 'ignored' };
      case 'acknowledge':
        this.counts.acknowledgedAgain++;
        return verdict;
      case 'merged':
        this.#merge(copy, verdict.seen);
        return { kind: 'held', seen: verdict.seen };
      case 'new': {
        const { seq, redelivered } = copy;
        this.counts.durable++;
        this.#durable.push({ kind: 'durable', seq, redelivered, copy, seen: verdict.seen });
        return { kind: 'held', seen: verdict.seen };
      }
    }
  }

  /** Durable copies first; they are marked as being with the host. */
  take(max: number): Waiting[] {
    const taken = this.#durable.splice(0, max);
    taken.push(...this.#live.splice(0, max - taken.length));
    for (const w of taken) w.seen.stage = 'surfaced';
    return taken;
  }

  takeNotices(): Notice[] {
    const overflow = [...this.#overflow].map(
      ([channel, count]): Notice => ({ kind: 'notice', reason: 'live-overflow', channel, count }),
    );
    this.#overflow.clear();
    return [...this.#notices.splice(0), ...overflow];
  }

  notice(n: Notice): void {
    this.#notices.push(n);
    if (this.#notices.length > NOTICES_MAX) this.#notices.shift();
  }

  /** Copies that were only looked at: live ones wait again, durable ones are to be given back. */
  putBack(taken: readonly Waiting[]): readonly string[] {
    const live = taken.filter((w) => w.kind === 'live');
    for (const w of live) w.seen.stage = 'waiting';
    this.#live.unshift(...live);
    return this.#forget(taken.filter((w) => w.kind === 'durable'));
  }

  /** The member left: whatever waits of the channel is dropped, and what still comes of it too. */
  left(channel: string): void {
    this.#left.add(channel);
    const ofIt = (w: Waiting) => w.copy.channel === channel;
    const gone = [...this.#durable.filter(ofIt), ...this.#live.filter(ofIt)];
    this.counts.afterLeave += gone.length;
    this.#forget(gone);
    this.#live = this.#live.filter((w) => !ofIt(w));
    const kept = this.#durable.filter((w) => !ofIt(w));
    this.#durable.splice(0, this.#durable.length, ...kept);
  }

  joined(channel: string): void {
    this.#left.delete(channel);
  }

  hasLeft(channel: string): boolean {
    return this.#left.has(channel);
  }

  #forget(list: readonly Waiting[]): readonly string[] {
    for (const w of list) this.#dedup.forget(w.seen);
    return list.flatMap((w) => w.seen.tokens.splice(0));
  }

  /** The durable copy of a live post that still waits takes its place among the durable ones. */
  #merge(copy: DurableCopy, seen: Seen): void {
    this.counts.merged++;
    const at = this.#live.findIndex((w) => w.seen === seen);
    const waiting = this.#live[at];
    if (waiting === undefined) return;
    this.#live.splice(at, 1);
    waiting.kind = 'durable';
    waiting.seq = copy.seq;
    waiting.redelivered = copy.redelivered;
    this.#durable.push(waiting);
  }

  #dropOldestLive(): void {
    const oldest = this.#live.shift();
    if (oldest === undefined) return;
    this.#forget([oldest]);
    this.counts.liveDropped++;
    const { channel } = oldest.copy;
    if (this.#overflow.size < NOTICES_MAX || this.#overflow.has(channel))
      this.#overflow.set(channel, (this.#overflow.get(channel) ?? 0) + 1);
  }

  #keyOf(copy: LiveCopy | DurableCopy, idless: (digest: string) => string): string {
    const { message, from, channel } = copy;
    if (message.id !== '') return this.#keys.withId(from, channel, message.id);
    return idless(createHash('sha256').update(JSON.stringify(message)).digest('base64'));
  }
}
