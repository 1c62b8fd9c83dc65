import { REFUSAL_REASONS, type Refusal, type RefusalReason } from './model.ts';
import type { WriterEvent } from './ports.ts';

/** The last refused requests are kept for whoever asks why a timer did not come. */
export const REFUSALS_KEPT = 64;
/** One line per reason in this time; the others are counted. */
export const REFUSAL_LOG_EVERY_MS = 60_000;

export interface RefusedRequest {
  readonly subject: string;
  readonly reason: RefusalReason;
  readonly detail: string;
  /** Milliseconds since the epoch. */
  readonly atMs: number;
}

/** Since the writer was made. Each request that was handed over ends in exactly one of them. */
export interface WriterCounts {
  readonly received: number;
  readonly armed: number;
  readonly firedNow: number;
  readonly alreadyArmed: number;
  readonly alreadyFired: number;
  readonly stale: number;
  readonly settled: number;
  readonly retried: number;
  readonly refused: Readonly<Record<RefusalReason, number>>;
  /** Messages that came from another consumer than ours: dropped. */
  readonly strays: number;
  /** Failures of the writer's own code; each request of them was retried. */
  readonly defects: number;
}

type Counted = Exclude<keyof WriterCounts, 'refused'>;

export class Counters {
  readonly #counts: Record<Counted, number> = {
    received: 0,
    armed: 0,
    firedNow: 0,
    alreadyArmed: 0,
    alreadyFired: 0,
    stale: 0,
    settled: 0,
    retried: 0,
    strays: 0,
    defects: 0,
  };
  readonly #refused = Object.fromEntries(REFUSAL_REASONS.map((r) => [r, 0])) as Record<
    RefusalReason,
    number
  >;
  readonly #refusals: RefusedRequest[] = [];
  readonly #loggedAtMs = new Map<RefusalReason, number>();
  readonly #emit: (e: WriterEvent) => void;

  constructor(emit: (e: WriterEvent) => void) {
    this.#emit = emit;
  }

  add(what: Counted, count = 1): void {
    this.#counts[what] += count;
  }

  refuse(subject: string, r: Refusal, atMs: number): void {
    const { reason, detail } = r;
    this.#refused[reason]++;
    this.#refusals.push({ subject, reason, detail, atMs });
    if (this.#refusals.length > REFUSALS_KEPT) this.#refusals.shift();
    const loggedAtMs = this.#loggedAtMs.get(reason);
    if (loggedAtMs !== undefined && atMs - loggedAtMs < REFUSAL_LOG_EVERY_MS) return;
    this.#loggedAtMs.set(reason, atMs);
    this.#emit({ event: 'timers.refused', subject, reason, detail });
  }

  counts(): WriterCounts {
    return { ...this.#counts, refused: { ...this.#refused } };
  }

  /** Oldest first. */
  refusals(): readonly RefusedRequest[] {
    return [...this.#refusals];
  }
}
