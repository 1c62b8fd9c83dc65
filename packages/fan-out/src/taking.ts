import { slotOf } from '@plane3/protocol';
import { entryOf, standsFor } from './copy.ts';
import { advance } from './cursor.ts';
import type { Copy, Decision, Event, Plan, PostInWork, State, Verdict } from './model.ts';

/** How posts become written copies: law E of `machine.ts`. */

export function onPost(s: State, event: Extract<Event, { kind: 'post' }>, out: Decision[]): void {
  if (s.phase !== 'running') return;
  s.asked = Math.max(0, s.asked - 1);
  s.sourcePending = event.post.pending;
  // The source proves its order, so what it passes over is not in the stream any more.
  const { seq } = event.post;
  if (seq > s.taken + 1) gone(s, s.taken + 1, seq - 1, out);
  s.taken = Math.max(s.taken, seq);
  s.waiting.push(event.post);
  pump(s, out);
}

/**
 * Both inclusive: posts that left the channel stream before they were decided, at its beginning or
 * by the limit of one sender behind older posts of others. All are counted, and told for the
 * first, second, fourth … range: a limit may leave a hole at every other post.
 */
export function gone(s: State, from: number, to: number, out: Decision[]): void {
  const first = Math.max(from, s.evictedThrough + 1);
  if (first > to) return;
  s.evictedThrough = to;
  s.counters.evicted += to - first + 1;
  s.holes++;
  if ((s.holes & (s.holes - 1)) === 0) out.push({ kind: 'evicted', from: first, to });
}

/** Issues, decides and asks for as much as the limits allow. */
export function pump(s: State, out: Decision[]): void {
  if (s.phase !== 'running') return;
  issue(s, out);
  const next = s.waiting.at(0);
  const room = s.copiesOpen < s.limits.copiesOpenMax && s.window.length < s.limits.postsOpenMax;
  if (next !== undefined && s.issuing === undefined && !s.deciding && s.directoryCurrent && room) {
    s.deciding = true;
    out.push({ kind: 'decide', post: next });
  }
  const { askChunk, postsAskedMax } = s.limits;
  while (s.asked + s.waiting.length + askChunk <= postsAskedMax) {
    s.asked += askChunk;
    out.push({ kind: 'ask', count: askChunk });
  }
}

function issue(s: State, out: Decision[]): void {
  const at = s.issuing;
  if (at === undefined) return;
  while (at.next < at.work.copies.length && s.copiesOpen < s.limits.copiesOpenMax) {
    const copy = at.work.copies[at.next++] as Copy;
    if (!copy.stored) publish(s, copy, out);
  }
  if (at.next >= at.work.copies.length) s.issuing = undefined;
}

export function publish(s: State, copy: Copy, out: Decision[]): void {
  s.copiesOpen++;
  s.openByMember.set(copy.member, (s.openByMember.get(copy.member) ?? 0) + 1);
  out.push({ kind: 'publish', copy });
}

export function closeFor(s: State, member: string): void {
  const open = (s.openByMember.get(member) ?? 1) - 1;
  if (open === 0) s.openByMember.delete(member);
  else s.openByMember.set(member, open);
}

/** Copies of this member that are written and not proved either way. */
export const openOf = (s: State, member: string): number => s.openByMember.get(member) ?? 0;

export function onDecided(s: State, plan: Plan, out: Decision[]): void {
  s.deciding = false;
  if (s.phase !== 'running' || s.waiting.at(0) !== plan.post) return;
  s.waiting.shift();
  const seq = plan.post.seq;
  const first = s.decided === undefined || seq > s.decided;
  if (first) {
    s.decided = seq;
    s.counters.posts++;
    for (const mention of plan.mentions) s.counters.mentions[mention]++;
  }
  const work: PostInWork = {
    plan,
    seq,
    incarnation: s.incarnation,
    copies: [],
    storeFloor: s.storeSeq,
    deadFloor: s.deadSeq,
    open: 0,
    burial: undefined,
  };
  for (const owed of plan.copies) takeUp(s, work, owed, out);
  s.window.push(work);
  if (plan.burial !== undefined) bury(s, work, plan.burial, out);
  if (work.copies.length > 0) s.issuing = { work, next: 0 };
  issue(s, out);
  advance(s, out);
  pump(s, out);
}

/** Once per post, also when it was buried before a crash. */
export function bury(s: State, work: PostInWork, verdict: Verdict, out: Decision[]): void {
  if (work.burial !== undefined || s.buried.has(work.seq)) return;
  work.burial = verdict;
  work.open++;
  s.burialsOpen++;
  out.push({ kind: 'bury', work, verdict });
}

function takeUp(s: State, work: PostInWork, owed: Plan['copies'][number], out: Decision[]): void {
  const { seq, incarnation } = work;
  const entry = entryOf(incarnation, seq, owed);
  const { member, generation, kind } = owed;
  const copy: Copy = { member, generation, kind, work, entry, attempt: 0, stored: false };
  work.copies.push(copy);
  const found =
    s.slots.size === 0
      ? undefined
      : s.slots.get(slotOf({ member, incarnation, seq }))?.find((f) => standsFor(f, owed));
  if (found === undefined) {
    work.open++;
    return;
  }
  copy.stored = true;
  s.counters.found++;
  // What stands in the slot may be the other kind: only the very entry is told.
  if (found.generation === generation && !s.announced.has(entry))
    out.push({ kind: 'announce', copy, storeSeq: found.storeSeq });
}

/** Copies of a member that are decided and not issued are looked at again before they are. */
export function onSettle(s: State, member: string, out: Decision[]): void {
  const at = s.issuing;
  if (at === undefined) return;
  for (let i = at.next; i < at.work.copies.length; i++) {
    const copy = at.work.copies[i] as Copy;
    if (copy.member === member && !copy.stored) out.push({ kind: 'recheck', copy });
  }
}

export function onRechecked(s: State, copy: Copy, owed: boolean, out: Decision[]): void {
  const at = s.issuing;
  if (owed || at === undefined || at.work !== copy.work) return;
  const index = copy.work.copies.indexOf(copy, at.next);
  if (index < 0) return;
  copy.work.copies.splice(index, 1);
  copy.work.open--;
  s.counters.withdrawn++;
  if (at.next >= at.work.copies.length) s.issuing = undefined;
  advance(s, out);
  pump(s, out);
}
