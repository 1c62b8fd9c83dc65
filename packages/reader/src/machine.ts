import type { LifecycleKey } from '@plane3/protocol';
import { acked, burnt, late, learnt, left, notPublished, published } from './answers.ts';
import {
  dequeue,
  noteStored,
  passOver,
  planRetry,
  restart,
  takeRead,
  wantRead,
} from './backlog.ts';
import type { Decision, Event, Judge, Limits, MemberState, Stepped, StoredEntry } from './model.ts';
import { factsOf, fits, hold, issue, leave, takenBack } from './window.ts';

/**
 * One member's entries and copies, from the store to the member's confirmation.
 *
 *   pending ──▶ issuing ──▶ handed over ──▶ leaving(confirmed) ──▶ gone
 *      │           │              │
 *      │           └──────────────┴──▶ pending again (taken back, expired, not published)
 *      ├──▶ passed over (withheld, deferred, refused) ──▶ pending again (next pass)
 *      └──▶ leaving(left | retired | own post) ──▶ gone
 *
 * No clock, no I/O: times, answers and the release rule come with the event. The state is changed
 * in place and handed back.
 */

/** Every way back to an earlier state, and what bounds it. */
export const LOOP_BACKS = [
  ['issuing → pending (count burnt)', 'once per id that the duplicate window still holds'],
  ['issuing → pending (not published)', 'one retry per back-off, ceiling `retryCeilingMs`'],
  ['handed over → pending (expired)', 'once per `copyAgeMs`, only while attached'],
  ['handed over → pending (taken back)', 'once per retraction: leave, narrowing, detachment, stop'],
  ['passed over → pending (cannot tell)', 'one pass per back-off, ceiling `retryCeilingMs`'],
  ['passed over → pending (rights or memberships changed)', 'one pass per change'],
  ['attached ⇄ lingering', 'one change per heartbeat or pull; copies stay where they are'],
  ['pass → pass (stored below the cursor)', 'one pass per such copy'],
  ['pass → pass (watchdog)', 'once per 2 × `ackWaitMs` of an attached member that is idle'],
  ['read → read', 'each answers within its bound; after a failure one per back-off'],
] as const;

/** `handOvers`: by store sequence, how often entries were handed over that were taken back since. */
export function initial(
  member: LifecycleKey,
  limits: Limits,
  nowMs: number,
  handOvers: ReadonlyMap<number, number> = new Map(),
): MemberState {
  return {
    member,
    limits,
    attachment: 'absent',
    attachedUntilMs: nowMs,
    lingerUntilMs: nowMs,
    holds: 0,
    cursor: 1,
    atEnd: false,
    reading: undefined,
    readCount: 0,
    storedMeanwhile: false,
    queue: [],
    queueBytes: 0,
    held: new Map(),
    byCopy: new Map(),
    issuing: 0,
    openEntries: 0,
    openBytes: 0,
    passedOver: new Map(),
    passedOverFrom: undefined,
    leftMeanwhile: new Set(),
    blocked: new Set(),
    retryAtMs: undefined,
    stalled: false,
    retries: 0,
    refused: new Set(),
    handOvers: new Map(handOvers),
    early: new Map(),
    progressAtMs: nowMs,
    watching: false,
    detaching: false,
  };
}

export function step(s: MemberState, event: Event, judge: Judge): Stepped {
  const out: Decision[] = [];
  apply(s, event, judge, out);
  wantRead(s, out);
  return { state: s, decisions: out };
}

/** Whether a turn would do something. */
export const isReady = (s: MemberState): boolean =>
  s.attachment === 'attached' &&
  s.holds === 0 &&
  !s.stalled &&
  s.queue.length > 0 &&
  s.held.size < s.limits.heldMax &&
  fits(s, s.queue[0] as StoredEntry);

function apply(s: MemberState, e: Event, judge: Judge, out: Decision[]): void {
  switch (e.kind) {
    case 'attach':
      attach(s, e.nowMs, e.untilMs);
      return;
    case 'detach':
      linger(s, e.nowMs);
      return;
    case 'adopt':
      adopt(s, e);
      return;
    case 'stored':
      noteStored(s, e.entry);
      return;
    case 'read':
      takeRead(s, e);
      return;
    case 'read-failed':
      readFailed(s, e.readId, e.nowMs);
      return;
    case 'turn':
      turn(s, e.nowMs, e.budget, judge, out);
      return;
    case 'published':
      published(s, e, out);
      return;
    case 'burnt':
      burnt(s, e.storeSeq, out);
      return;
    case 'not-published':
      notPublished(s, e.storeSeq, e.nowMs, out);
      return;
    case 'ack':
      acked(s, e, out);
      return;
    case 'learnt':
      learnt(s, e, out);
      return;
    case 'late':
      late(s, e.facts, out);
      return;
    case 'left':
      left(s, e.storeSeq, out);
      return;
    case 'hold':
      s.holds++;
      return;
    case 'resume':
      s.holds--;
      return;
    case 'taken-back':
      takenBack(s, e.storeSeqs);
      return;
    case 'rejudge':
      rejudge(s, judge, out);
      return;
    case 'tick':
      tick(s, e.nowMs, out);
      return;
    default:
      e satisfies never;
      return;
  }
}

// --- attachment

function attach(s: MemberState, nowMs: number, untilMs: number): void {
  s.attachedUntilMs = Math.max(untilMs, s.attachment === 'attached' ? s.attachedUntilMs : 0);
  if (s.attachment === 'attached') return;
  s.attachment = 'attached';
  s.detaching = false;
  s.progressAtMs = nowMs;
}

function linger(s: MemberState, nowMs: number): void {
  if (s.attachment !== 'attached') return;
  s.attachment = 'lingering';
  s.lingerUntilMs = nowMs + s.limits.detachGraceMs;
  // What was read ahead is not kept for a member that is not there.
  restart(s, s.cursor);
}

function adopt(s: MemberState, e: Extract<Event, { kind: 'adopt' }>): void {
  if (s.attachment === 'absent') {
    s.attachment = 'lingering';
    s.lingerUntilMs = e.nowMs + s.limits.detachGraceMs;
  }
  for (const c of e.copies) {
    const { facts, bytes, handOver, copySeq, storedNs } = c;
    s.handOvers.delete(facts.storeSeq);
    hold(s, {
      state: 'handed-over',
      facts,
      bytes,
      handOver,
      copySeq,
      sinceMs: e.nowMs,
      storedNs,
      claim: undefined,
    });
  }
}

function tick(s: MemberState, nowMs: number, out: Decision[]): void {
  if (s.attachment === 'attached' && nowMs >= s.attachedUntilMs) linger(s, nowMs);
  if (s.attachment === 'lingering') {
    if (nowMs >= s.lingerUntilMs && !s.detaching) {
      s.detaching = true;
      out.push({ kind: 'detached' });
    }
    return;
  }
  if (s.retryAtMs !== undefined && nowMs >= s.retryAtMs) restart(s, s.cursor);
  const old: number[] = [];
  for (const h of s.held.values())
    if (h.state === 'handed-over' && nowMs - h.sinceMs >= s.limits.copyAgeMs)
      old.push(h.facts.storeSeq);
  if (old.length > 0) out.push({ kind: 'recall', storeSeqs: old, cause: 'expired' });
  const idle = s.openEntries === 0 && s.queue.length === 0 && s.reading === undefined;
  if (s.attachment === 'attached' && idle && nowMs - s.progressAtMs >= 2 * s.limits.ackWaitMs) {
    s.progressAtMs = nowMs;
    s.watching = s.atEnd;
    restart(s, 1);
  }
}

// --- hand-over

function turn(s: MemberState, nowMs: number, budget: number, judge: Judge, out: Decision[]): void {
  for (let n = 0; n < budget && isReady(s); n++) {
    const stored = dequeue(s) as StoredEntry;
    if (!s.held.has(stored.storeSeq)) judgeOne(s, stored, nowMs, judge, out);
  }
}

function judgeOne(
  s: MemberState,
  stored: StoredEntry,
  nowMs: number,
  judge: Judge,
  out: Decision[],
): void {
  const { storeSeq, channel } = stored;
  if (s.refused.has(storeSeq)) {
    passOver(s, storeSeq, 'refused');
    return;
  }
  const verdict = judge(stored);
  if (verdict.kind === 'refuse') {
    if (verdict.effect === 'withhold') passOver(s, storeSeq, verdict.reason);
    else leave(s, storeSeq, factsOf(stored), 0, verdict.reason, undefined, out);
    return;
  }
  if (verdict.kind === 'cannot-tell') {
    s.blocked.add(channel);
    // What nobody can tell about the member holds for all its entries: no use in reading on.
    s.stalled = verdict.why !== 'membership-not-active';
    passOver(s, storeSeq, verdict.why);
    planRetry(s, nowMs);
    return;
  }
  if (s.blocked.has(channel)) {
    passOver(s, storeSeq, 'behind-a-doubt');
    return;
  }
  const handOver = (s.handOvers.get(storeSeq) ?? 0) + 1;
  s.handOvers.delete(storeSeq);
  s.progressAtMs = nowMs;
  if (s.watching) out.push({ kind: 'count', what: 'watchdog-repair' });
  s.watching = false;
  issue(s, stored, handOver, out);
}

/** Whatever is handed over and not plainly allowed comes back; what was passed over is tried anew. */
function rejudge(s: MemberState, judge: Judge, out: Decision[]): void {
  const storeSeqs: number[] = [];
  for (const h of s.held.values())
    if (h.state !== 'leaving' && judge(h.facts).kind !== 'allow') storeSeqs.push(h.facts.storeSeq);
  if (storeSeqs.length > 0) out.push({ kind: 'recall', storeSeqs, cause: 'not-allowed' });
  if (s.passedOverFrom !== undefined || s.stalled) restart(s, s.cursor);
}

function readFailed(s: MemberState, readId: number, nowMs: number): void {
  if (s.reading !== readId) return;
  s.reading = undefined;
  s.stalled = true;
  planRetry(s, nowMs);
}
