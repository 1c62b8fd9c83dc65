import type { Timing } from './model.ts';

/** Shorter leases cannot be told from a slow broker (wire contract section 7). */
export const TTL_MS_MIN = 2_000;
export const TTL_MS_DEFAULT = 30_000;

const START_MAX_MS = 5_000;
const QUIESCE_MAX_MS = 5_000;
const DOUBT_MAX_MS = 300_000;
const RELEASE_MAX_MS = 500;

const between = (min: number, x: number, max: number): number =>
  Math.round(Math.min(max, Math.max(min, x)));

/**
 * The times of a lease from its TTL. Three renewals fit into a TTL, and one that is unanswered
 * can be read back and repeated inside of the window.
 */
export function timingOf(ttlMs: number, overrides: Partial<Omit<Timing, 'ttlMs'>> = {}): Timing {
  const renewEveryMs = Math.floor(ttlMs / 3);
  const callTimeoutMs = between(500, ttlMs / 4, 2_000);
  const retryMs = between(50, ttlMs / 20, 500);
  return {
    ttlMs,
    marginMs: between(200, ttlMs / 10, 2_000),
    renewEveryMs,
    retryMs,
    callTimeoutMs,
    observeMs: renewEveryMs + callTimeoutMs + retryMs,
    startMaxMs: START_MAX_MS,
    quiesceMaxMs: QUIESCE_MAX_MS,
    doubtMaxMs: DOUBT_MAX_MS,
    releaseMaxMs: RELEASE_MAX_MS,
    ...overrides,
  };
}

/** How long a confirmed attempt is worth, from its start. */
export const windowMs = (t: Timing): number => t.ttlMs - t.marginMs;
