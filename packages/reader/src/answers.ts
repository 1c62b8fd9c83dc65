import { noteLeft, passOver, planRetry, restart, unqueue } from './backlog.ts';
import type { Decision, EntryFacts, Event, HandedOver, MemberState } from './model.ts';
import { hold, leave, release, remember } from './window.ts';

/** What the broker and the member answer about a copy: stored, burnt, not stored, acked. Part of the machine. */

export function published(
  s: MemberState,
  e: Extract<Event, { kind: 'published' }>,
  out: Decision[],
): void {
  const h = s.held.get(e.storeSeq);
  if (h?.state !== 'issuing') return;
  const { facts, bytes, handOver } = h;
  release(s, h);
  if (s.retryAtMs === undefined) s.retries = 0;
  if (h.confirmed) {
    leave(s, e.storeSeq, facts, handOver, 'confirmed', e.copySeq, out);
    return;
  }
  const early = s.early.get(e.copySeq);
  s.early.delete(e.copySeq);
  hold(s, {
    state: 'handed-over',
    facts,
    bytes,
    handOver,
    copySeq: e.copySeq,
    sinceMs: e.nowMs,
    storedNs: e.storedNs,
    claim: undefined,
  });
  if (early !== undefined)
    acked(s, { kind: 'ack', copySeq: e.copySeq, nowMs: e.nowMs, ...early }, out);
  if (s.issuing === 0) flushEarly(s, out);
}

/**
 * The broker's duplicate window has swallowed this count. The next one is another hand-over, so
 * the entry goes back and is judged anew.
 */
export function burnt(s: MemberState, storeSeq: number, out: Decision[]): void {
  const h = s.held.get(storeSeq);
  if (h?.state !== 'issuing') return;
  release(s, h);
  if (h.confirmed) leave(s, storeSeq, h.facts, h.handOver, 'confirmed', undefined, out);
  else {
    s.held.delete(storeSeq);
    remember(s, storeSeq, h.handOver);
    restart(s, storeSeq);
  }
  if (s.issuing === 0) flushEarly(s, out);
}

export function notPublished(
  s: MemberState,
  storeSeq: number,
  nowMs: number,
  out: Decision[],
): void {
  const h = s.held.get(storeSeq);
  if (h?.state !== 'issuing') return;
  release(s, h);
  if (h.confirmed) leave(s, storeSeq, h.facts, h.handOver, 'confirmed', undefined, out);
  else {
    // Not handed over, so the count is used again.
    remember(s, storeSeq, h.handOver - 1);
    s.held.delete(storeSeq);
    passOver(s, storeSeq, 'not-published');
    planRetry(s, nowMs);
  }
  if (s.issuing === 0) flushEarly(s, out);
}

export function acked(s: MemberState, e: Extract<Event, { kind: 'ack' }>, out: Decision[]): void {
  const storeSeq = s.byCopy.get(e.copySeq);
  const h = storeSeq === undefined ? undefined : s.held.get(storeSeq);
  if (h?.state !== 'handed-over') {
    const { copySeq, storedNs, meaning } = e;
    if (s.issuing > 0 && s.early.size < s.limits.windowEntries)
      s.early.set(copySeq, { storedNs, meaning });
    else out.push({ kind: 'unknown-copy', copySeq, storedNs });
  } else if (h.storedNs === undefined) {
    const { storedNs, meaning } = e;
    if (h.claim === undefined) out.push({ kind: 'learn', copySeq: e.copySeq });
    s.held.set(h.facts.storeSeq, { ...h, claim: h.claim ?? { storedNs, meaning } });
  } else settle(s, h, h.storedNs, e.storedNs, e.meaning, e.nowMs, out);
}

export function learnt(
  s: MemberState,
  e: Extract<Event, { kind: 'learnt' }>,
  out: Decision[],
): void {
  const storeSeq = s.byCopy.get(e.copySeq);
  const h = storeSeq === undefined ? undefined : s.held.get(storeSeq);
  if (h?.state !== 'handed-over') return;
  const known: HandedOver = { ...h, storedNs: e.storedNs, claim: undefined };
  s.held.set(known.facts.storeSeq, known);
  if (h.claim === undefined) return;
  if (e.storedNs === undefined) out.push({ kind: 'count', what: 'ack-of-a-vanished-copy' });
  else settle(s, known, e.storedNs, h.claim.storedNs, h.claim.meaning, e.nowMs, out);
}

function settle(
  s: MemberState,
  h: HandedOver,
  storedNs: string,
  claimedNs: string,
  meaning: 'confirm' | 'refuse',
  nowMs: number,
  out: Decision[],
): void {
  if (storedNs !== claimedNs) {
    out.push({ kind: 'count', what: 'ack-of-another-copy' });
    return;
  }
  s.progressAtMs = nowMs;
  release(s, h);
  const { storeSeq } = h.facts;
  if (meaning === 'confirm') {
    leave(s, storeSeq, h.facts, h.handOver, 'confirmed', h.copySeq, out);
    return;
  }
  s.held.delete(storeSeq);
  bound(s.refused, s.limits.refusedMax).add(storeSeq);
  remember(s, storeSeq, h.handOver);
  passOver(s, storeSeq, 'refused');
  out.push({ kind: 'count', what: 'refused-by-member' });
  out.push({ kind: 'remove-refused', copySeq: h.copySeq });
}

/** An ack of a copy that had been taken back, verified by whoever remembered it. */
export function late(s: MemberState, facts: EntryFacts, out: Decision[]): void {
  const { storeSeq } = facts;
  const h = s.held.get(storeSeq);
  if (h?.state === 'leaving') return;
  if (h?.state === 'issuing') {
    s.held.set(storeSeq, { ...h, confirmed: true });
    return;
  }
  if (h !== undefined) release(s, h);
  unqueue(s, storeSeq);
  leave(s, storeSeq, facts, h?.handOver ?? 0, 'confirmed', h?.copySeq, out);
}

/** It is out of the store, by this machine's decision or by somebody else's. */
export function left(s: MemberState, storeSeq: number, out: Decision[]): void {
  noteLeft(s, storeSeq);
  const h = s.held.get(storeSeq);
  if (h?.state === 'issuing') {
    s.held.set(storeSeq, { ...h, confirmed: true });
    return;
  }
  if (h?.state === 'handed-over') {
    release(s, h);
    out.push({ kind: 'drop-copy', copySeq: h.copySeq });
  }
  s.held.delete(storeSeq);
}

function flushEarly(s: MemberState, out: Decision[]): void {
  for (const [copySeq, { storedNs }] of s.early)
    out.push({ kind: 'unknown-copy', copySeq, storedNs });
  s.early.clear();
}

function bound(set: Set<number>, max: number): Set<number> {
  if (set.size >= max) {
    const oldest = set.values().next();
    if (oldest.done !== true) set.delete(oldest.value);
  }
  return set;
}
