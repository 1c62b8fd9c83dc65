import { isUnsettled, standingOf } from './goals.ts';
import type { MembershipRow, StoredRow } from './membership.ts';
import type { Event, Report, State } from './model.ts';
import { membershipKey, parseMembershipKey } from './row.ts';
import { isOwedPosts } from './row-index.ts';
import { advance, answer, failure, newTask, type Out } from './work.ts';

/** What the store holds, as far as this process knows: its own writes and everybody's changes. */

export function loaded(s: State, rows: Iterable<StoredRow>, incarnation: string, out: Out): void {
  s.phase = 'loaded';
  s.incarnation = incarnation;
  for (const r of rows) s.rows.set(r);
  const unsettled: MembershipRow[] = [];
  let astray = 0;
  for (const { row } of s.rows.values()) {
    const standing = standingOf(row, incarnation);
    if (standing === 'astray') astray++;
    if (isUnsettled(standing)) unsettled.push(row);
  }
  const report = { rows: s.rows.size, unsettled: unsettled.length };
  out.push({ kind: 'report', report: { event: 'registry.loaded', ...report } });
  if (astray > 0)
    out.push({ kind: 'report', report: { event: 'registry.rebase', memberships: astray } });
  for (const row of unsettled) settle(s, row, false, out);
}

/** Somebody has to finish this row: a task that nobody waits for. */
function settle(s: State, row: MembershipRow, suspect: boolean, out: Out): void {
  const key = membershipKey(row.channel, row.member);
  const t = newTask(key, row.channel, row.member);
  t.suspect = suspect;
  s.tasks.set(key, t);
  advance(s, t, out);
}

/** A row as the store holds it at `revision`; older news than what is known changes nothing. */
export function apply(
  s: State,
  key: string,
  row: MembershipRow | undefined,
  revision: number,
  out: Out,
): void {
  const before = s.rows.get(key);
  if (before !== undefined && before.revision > revision) return;
  const known = before?.revision === revision;
  if (row !== undefined) {
    s.removedAt.delete(key);
    s.rows.set({ row, revision });
  } else if (before !== undefined) {
    s.rows.delete(key);
    s.removedAt.set(key, revision);
  }
  const of = row ?? before?.row;
  if (of === undefined || (known && row !== undefined)) return;
  out.push({ kind: 'changed', channel: of.channel, member: of.member, row });
}

/**
 * The echo of an own write, possibly before its answer, or a change by somebody else: a process
 * that lost the lease and does not know it yet, or a privileged tool.
 */
export function rowChanged(s: State, e: Extract<Event, { kind: 'row-changed' }>, out: Out): void {
  if (s.phase !== 'loaded' || parseMembershipKey(e.key) === undefined) return;
  const { key, row, revision } = e;
  const before = s.rows.get(key);
  const removedAt = s.removedAt.get(key) ?? 0;
  if (removedAt > 0 && row === undefined && revision >= removedAt) {
    s.removedAt.delete(key);
    return;
  }
  if ((before?.revision ?? removedAt) >= revision) return;
  if (row === undefined && before === undefined) return;
  const t = s.tasks.get(key);
  const removing = t?.write !== undefined && t.write.row === undefined;
  const isOwn = row === undefined ? removing : row.writer === s.writer;
  apply(s, key, row, revision, out);
  if (row === undefined) s.removedAt.delete(key); // this was the echo already
  if (!isOwn) {
    s.counters.foreignChanges++;
    const writer = row?.writer;
    const report = { event: 'registry.foreign-change', key, writer, revision } as const;
    out.push({ kind: 'report', report });
  }
  if (row === undefined) return;
  const suspect = !isOwn && row.state === 'active' && !wasOwed(before?.row, row);
  if (t !== undefined) t.suspect ||= suspect;
  // An own write that was given up may still land: nobody works on it any more.
  else if (suspect || isUnsettled(standingOf(row, s.incarnation))) settle(s, row, suspect, out);
}

/** Posts decided here so far took the member into account. */
const wasOwed = (before: MembershipRow | undefined, row: MembershipRow): boolean =>
  before !== undefined && isOwedPosts(before) && before.generation === row.generation;

/**
 * A store is not the one that the rows belong to. Nothing is answered, written or called current
 * any more; the rows stay as they were, for an empty store is no proof that all have left.
 */
export function recreated(s: State, report: Report, out: Out): void {
  if (s.phase === 'recreated') return;
  s.phase = 'recreated';
  out.push({ kind: 'report', report });
  const why = failure('unavailable', 'unknown', 'a store of the space was recreated');
  for (const request of [...s.open.keys()]) answer(s, out, request, why);
  s.tasks.clear();
  s.retirements.clear();
}
