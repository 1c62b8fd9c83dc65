import { restart } from './backlog.ts';
import type {
  Decision,
  EntryFacts,
  HandedOver,
  Held,
  Issuing,
  LeaveCause,
  MemberState,
  StoredEntry,
} from './model.ts';

/** What is held of one member: into the window, out of it, back to the store. Part of the machine. */

export const fits = (s: MemberState, e: StoredEntry): boolean =>
  s.openEntries === 0 ||
  (s.openEntries < s.limits.windowEntries && s.openBytes + e.body.length <= s.limits.windowBytes);

export function issue(
  s: MemberState,
  stored: StoredEntry,
  handOver: number,
  out: Decision[],
): void {
  const bytes = stored.body.length;
  const facts = factsOf(stored);
  hold(s, {
    state: 'issuing',
    facts,
    stored,
    bytes,
    handOver,
    confirmed: false,
  });
  out.push({ kind: 'publish', entry: stored, handOver });
}

export function takenBack(s: MemberState, storeSeqs: readonly number[]): void {
  let first = Number.POSITIVE_INFINITY;
  for (const storeSeq of storeSeqs) {
    const h = s.held.get(storeSeq);
    if (h?.state !== 'handed-over') continue;
    release(s, h);
    s.held.delete(storeSeq);
    remember(s, storeSeq, h.handOver);
    first = Math.min(first, storeSeq);
  }
  if (first !== Number.POSITIVE_INFINITY) restart(s, first);
}

export function leave(
  s: MemberState,
  storeSeq: number,
  facts: EntryFacts,
  handOver: number,
  cause: LeaveCause,
  copySeq: number | undefined,
  out: Decision[],
): void {
  s.held.set(storeSeq, { state: 'leaving', facts, bytes: 0, handOver, cause });
  s.handOvers.delete(storeSeq);
  out.push({ kind: 'leave', facts, cause, copySeq });
}

export function hold(s: MemberState, h: Issuing | HandedOver): void {
  s.held.set(h.facts.storeSeq, h);
  s.openEntries++;
  s.openBytes += h.bytes;
  if (h.state === 'issuing') s.issuing++;
  else s.byCopy.set(h.copySeq, h.facts.storeSeq);
}

export function release(s: MemberState, h: Held): void {
  if (h.state === 'leaving') return;
  s.openEntries--;
  s.openBytes -= h.bytes;
  if (h.state === 'issuing') s.issuing--;
  else s.byCopy.delete(h.copySeq);
}

export function remember(s: MemberState, storeSeq: number, handOver: number): void {
  if (handOver <= 0) return;
  if (s.handOvers.size >= s.limits.heldMax) {
    const oldest = s.handOvers.keys().next();
    if (oldest.done !== true) s.handOvers.delete(oldest.value);
  }
  s.handOvers.set(storeSeq, handOver);
}

export const factsOf = (e: StoredEntry): EntryFacts => ({
  entry: e.entry,
  entryId: e.entryId,
  storeSeq: e.storeSeq,
  channel: e.channel,
  kind: e.kind,
  from: e.from,
  storedAt: e.storedAt,
});
