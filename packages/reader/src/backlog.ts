import type { Decision, MemberState, PassedOver, StoredEntry } from './model.ts';
import type { Doubt } from './release-policy.ts';

/**
 * How one member's store is passed through: a cursor, a short queue ahead of the window, and what
 * was passed over. Part of the machine; changes the state in place.
 */

/**
 * Starts the pass anew, at `fromSeq` or earlier: at the first entry that was passed over, so that
 * the counts of a pass are always those of whole passes. What is held is not read twice.
 */
export function restart(s: MemberState, fromSeq: number): void {
  const head = s.queue[0]?.storeSeq ?? Number.POSITIVE_INFINITY;
  const passed = s.passedOverFrom ?? Number.POSITIVE_INFINITY;
  s.cursor = Math.max(1, Math.min(fromSeq, s.cursor, head, passed));
  s.atEnd = false;
  s.reading = undefined;
  s.queue = [];
  s.queueBytes = 0;
  s.passedOver = new Map();
  s.passedOverFrom = undefined;
  s.blocked.clear();
  s.retryAtMs = undefined;
  s.stalled = false;
}

/** A copy that this process has just stored: taken from memory where the order allows it. */
export function noteStored(s: MemberState, entry: StoredEntry): void {
  const { storeSeq } = entry;
  if (s.reading !== undefined) s.storedMeanwhile = true;
  if (storeSeq < s.cursor) {
    if (!s.held.has(storeSeq) && !isQueued(s, storeSeq)) restart(s, storeSeq);
    return;
  }
  const room =
    s.queue.length < s.limits.queueEntries &&
    s.queueBytes + entry.body.length <= s.limits.queueBytes;
  if (s.attachment === 'attached' && s.atEnd && s.reading === undefined && room) {
    enqueue(s, entry);
    s.cursor = storeSeq + 1;
  } else s.atEnd = false;
}

export function takeRead(
  s: MemberState,
  read: {
    readonly readId: number;
    readonly entries: readonly StoredEntry[];
    readonly nextSeq: number;
    readonly complete: boolean;
  },
): void {
  if (s.reading !== read.readId) return;
  s.reading = undefined;
  if (s.attachment !== 'attached') return;
  for (const e of read.entries)
    if (e.storeSeq >= s.cursor && !s.held.has(e.storeSeq) && !s.leftMeanwhile.has(e.storeSeq))
      enqueue(s, e);
  s.leftMeanwhile.clear();
  s.cursor = Math.max(s.cursor, read.nextSeq);
  s.atEnd = read.complete && !s.storedMeanwhile;
}

/** Asks for more where there is room for more; at most one read is under way. */
export function wantRead(s: MemberState, out: Decision[]): void {
  if (s.attachment !== 'attached' || s.holds > 0 || s.stalled) return;
  if (s.atEnd || s.reading !== undefined || s.held.size >= s.limits.heldMax) return;
  if (s.queue.length * 2 >= s.limits.queueEntries || s.queueBytes * 2 >= s.limits.queueBytes)
    return;
  s.reading = ++s.readCount;
  s.storedMeanwhile = false;
  s.leftMeanwhile.clear();
  out.push({ kind: 'read', readId: s.reading, fromSeq: s.cursor });
}

export function dequeue(s: MemberState): StoredEntry | undefined {
  const e = s.queue.shift();
  if (e !== undefined) s.queueBytes -= e.body.length;
  return e;
}

export function passOver(s: MemberState, storeSeq: number, reason: PassedOver | Doubt): void {
  s.passedOver.set(reason, (s.passedOver.get(reason) ?? 0) + 1);
  s.passedOverFrom = Math.min(s.passedOverFrom ?? storeSeq, storeSeq);
}

/** Later each time, up to the ceiling; back to the first delay after a pass without a doubt. */
export function planRetry(s: MemberState, nowMs: number): void {
  if (s.retryAtMs !== undefined) return;
  const { retryFirstMs, retryCeilingMs } = s.limits;
  s.retryAtMs = nowMs + Math.min(retryFirstMs * 2 ** Math.min(s.retries, 20), retryCeilingMs);
  s.retries++;
}

/** The entry leaves the store: what was read of it earlier must not be handed over. */
export function noteLeft(s: MemberState, storeSeq: number): void {
  if (s.reading !== undefined) s.leftMeanwhile.add(storeSeq);
  unqueue(s, storeSeq);
}

export function unqueue(s: MemberState, storeSeq: number): void {
  if (!isQueued(s, storeSeq)) return;
  s.queue = s.queue.filter((e) => e.storeSeq !== storeSeq);
  s.queueBytes = s.queue.reduce((n, e) => n + e.body.length, 0);
}

function enqueue(s: MemberState, e: StoredEntry): void {
  s.queue.push(e);
  s.queueBytes += e.body.length;
}

function isQueued(s: MemberState, storeSeq: number): boolean {
  const head = s.queue[0];
  return (
    head !== undefined && storeSeq >= head.storeSeq && s.queue.some((e) => e.storeSeq === storeSeq)
  );
}
