import { Plane3Error } from '@plane3/protocol';
import type { Limits } from './model.ts';

/** Everything the reader waits for or holds is bounded here. Durations in ms. */
export interface ReaderSettings {
  readonly windowEntries: number;
  readonly windowBytes: number;
  /** Must be the durables' own ack wait. */
  readonly ackWaitMs: number;
  readonly detachGraceMs: number;
  readonly leaveBoundary: 'hard' | 'cursor';
  /** Tick of everything that is only re-checked. */
  readonly sweepMs: number;
  readonly retryFirstMs: number;
  readonly retryCeilingMs: number;
  /** A page of the store. */
  readonly pageEntries: number;
  readonly pageBytes: number;
  /** Open publishes, reads and removals of all members together. */
  readonly publishesOpenMax: number;
  readonly readsOpenMax: number;
  readonly removalsOpenMax: number;
  /** Hand-overs of one member before the next one's turn. */
  readonly turnEntries: number;
  /** How long a retraction may take before the answer is `unknown`. It is then gone on with. */
  readonly retractWaitMs: number;
  /** How long a disposal waits for the fan-out cursor. */
  readonly disposeWaitMs: number;
  /** Copies taken back are remembered for late acks, this long and at most that many. */
  readonly lateAckMs: number;
  readonly lateAcksMax: number;
  /** Shutdown: past it copies stay for the next daemon to adopt. */
  readonly stopMs: number;
}

export const READER_DEFAULTS: ReaderSettings = {
  windowEntries: 64,
  windowBytes: 1 << 20,
  ackWaitMs: 60_000,
  detachGraceMs: 60_000,
  leaveBoundary: 'hard',
  sweepMs: 1_000,
  retryFirstMs: 500,
  retryCeilingMs: 30_000,
  pageEntries: 128,
  pageBytes: 1 << 20,
  publishesOpenMax: 4_096,
  readsOpenMax: 16,
  removalsOpenMax: 256,
  turnEntries: 16,
  retractWaitMs: 10_000,
  disposeWaitMs: 5_000,
  lateAckMs: 120_000,
  lateAcksMax: 65_536,
  stopMs: 900,
};

/** `ackWaitMs` alone moves what is defined by it. */
export function settingsOf(given: Partial<ReaderSettings> = {}): ReaderSettings {
  const ackWaitMs = given.ackWaitMs ?? READER_DEFAULTS.ackWaitMs;
  const s: ReaderSettings = {
    ...READER_DEFAULTS,
    detachGraceMs: ackWaitMs,
    lateAckMs: 2 * ackWaitMs,
    ...given,
  };
  for (const [name, value] of Object.entries(s))
    if (typeof value === 'number' && !(Number.isSafeInteger(value) && value > 0))
      throw new Plane3Error('settings-invalid', { detail: `${name} must be a positive integer` });
  return s;
}

/** Held entries per place in the window: what waits to leave the store takes room too. */
const HELD_PER_WINDOW = 4;
const REFUSED_MAX = 4_096;

export const limitsOf = (s: ReaderSettings): Limits => ({
  windowEntries: s.windowEntries,
  windowBytes: s.windowBytes,
  queueEntries: 2 * s.windowEntries,
  queueBytes: s.windowBytes,
  heldMax: HELD_PER_WINDOW * s.windowEntries,
  ackWaitMs: s.ackWaitMs,
  detachGraceMs: s.detachGraceMs,
  copyAgeMs: copyTtlMs(s),
  retryFirstMs: s.retryFirstMs,
  retryCeilingMs: s.retryCeilingMs,
  refusedMax: REFUSED_MAX,
});

/** Copies expire by themselves after two ack waits, where the broker knows message TTLs. */
export const copyTtlMs = (s: Pick<ReaderSettings, 'ackWaitMs'>): number => 2 * s.ackWaitMs;
