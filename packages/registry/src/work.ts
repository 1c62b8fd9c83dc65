import type { ErrorCode, LifecycleKey, Outcome } from '@plane3/protocol';
import { enter, leave } from './gates.ts';
import { isUnsettled, nextAction, standingOf } from './goals.ts';
import { joinCursorOf, leaveCursorOf, nextGeneration } from './join-cursor.ts';
import type { Interval, MembershipRow, StoredRow } from './membership.ts';
import type {
  AnyAnswer,
  Asked,
  Decision,
  Failure,
  KeyEvent,
  RequestId,
  State,
  Task,
  Waiting,
} from './model.ts';
import { PAST_INTERVALS_MAX } from './row.ts';

/** The steps of one (channel, lifecycle) toward its goal. */

export type Out = Decision[];

export function newTask(key: string, channel: string, member: LifecycleKey): Task {
  return {
    key,
    channel,
    member,
    goal: 'settle',
    asked: undefined,
    waiting: undefined,
    token: 0,
    tries: 0,
    conflicts: 0,
    wrote: false,
    right: false,
    positions: undefined,
    write: undefined,
    closing: 0,
    copying: undefined,
    caughtUp: undefined,
    cleared: new Set(),
    suspect: false,
    disposed: 0,
    queue: [],
  };
}

const rowOf = (s: State, t: Task): StoredRow | undefined => s.rows.get(t.key);

/** Whether leaving the task alone would leave something half done or undecided. */
export const isOpenEnded = (s: State, t: Task): boolean =>
  t.write !== undefined || isUnsettled(standingOf(rowOf(s, t)?.row, s.incarnation));

export function answer(s: State, out: Out, request: RequestId, a: AnyAnswer): void {
  if (s.open.delete(request)) out.push({ kind: 'answer', request, answer: a });
}

export const failure = (code: ErrorCode, outcome: Failure['outcome'], detail: string): Failure => ({
  ok: false,
  code,
  outcome,
  detail,
});

/** What the task waits for now; an answer to anything it asked before is not listened to. */
export function ask(s: State, t: Task, waiting: Waiting): KeyEvent {
  t.waiting = waiting;
  t.token = ++s.token;
  return { key: t.key, token: t.token };
}

/** One step on; called whenever nothing is awaited. */
export function advance(s: State, t: Task, out: Out): void {
  if (s.phase !== 'loaded') return;
  if (t.write !== undefined) {
    write(s, t, t.write.row, out);
    return;
  }
  if (t.asked?.goal === 'join' && !t.right) {
    out.push({ ...ask(s, t, 'right'), kind: 'ask-right', member: t.member, channel: t.channel });
    return;
  }
  const held = rowOf(s, t);
  const row = held?.row;
  if (isOtherGeneration(t, row)) {
    const detail = `the membership has generation ${row?.generation}`;
    fail(s, t, 'conflict', detail, out);
    return;
  }
  if (row !== undefined && isToBeRechecked(s, t, row)) {
    write(s, t, { ...row, state: 'joining', writer: s.writer }, out);
    return;
  }
  const action = nextAction(t.goal, standingOf(row, s.incarnation));
  if (action === 'rest') {
    finish(s, t, out);
    return;
  }
  if (action === 'open') {
    open(s, t, row, out);
    return;
  }
  if (row === undefined) {
    finish(s, t, out); // no other action has an absent row
    return;
  }
  switch (action) {
    case 'catch-up':
      catchUp(s, t, row, out);
      return;
    case 'rebase':
      rebase(s, t, row, out);
      return;
    case 'mark-leaving':
      markLeaving(s, t, row, out);
      return;
    case 'close':
      close(s, t, row, out);
      return;
    case 'remove':
      write(s, t, undefined, out);
      return;
  }
}

const isOtherGeneration = (t: Task, row: MembershipRow | undefined): boolean =>
  t.asked?.goal === 'leave' &&
  t.asked.generation !== undefined &&
  row !== undefined &&
  !t.wrote &&
  row.generation !== t.asked.generation;

const isToBeRechecked = (s: State, t: Task, row: MembershipRow): boolean =>
  t.suspect &&
  row.state === 'active' &&
  row.writer !== s.writer &&
  (t.goal === 'join' || t.goal === 'settle');

function open(s: State, t: Task, before: MembershipRow | undefined, out: Out): void {
  if (t.asked?.goal !== 'join') {
    finish(s, t, out); // nobody waits for it any more
    return;
  }
  const claimed = t.asked.joinCursor;
  if (t.positions === undefined) {
    readPositions(s, t, claimed, true, out);
    return;
  }
  const { frontier, storeSeq } = t.positions;
  const cursor = joinCursorOf(claimed, frontier, before, s.settings);
  const row: MembershipRow = {
    channel: t.channel,
    member: t.member,
    state: 'joining',
    generation: nextGeneration(before?.generation, storeSeq),
    incarnation: frontier.incarnation,
    ...cursor,
    writer: s.writer,
    past: [],
  };
  write(s, t, row, out);
}

/**
 * Owed from the start of the present channel stream, as a new generation: every post in it came
 * after the join. What the old stream's interval still has in the store stays owed too.
 */
function rebase(s: State, t: Task, row: MembershipRow, out: Out): void {
  if (t.positions === undefined) {
    readPositions(s, t, undefined, true, out);
    return;
  }
  s.counters.rebased++;
  write(
    s,
    t,
    {
      channel: t.channel,
      member: t.member,
      state: 'joining',
      generation: nextGeneration(row.generation, t.positions.storeSeq),
      incarnation: s.incarnation,
      joinCursor: 0,
      cursorSource: 'frontier',
      writer: s.writer,
      past: [...row.past, intervalOf(row)].slice(-PAST_INTERVALS_MAX),
    },
    out,
  );
}

function readPositions(
  s: State,
  t: Task,
  behind: number | undefined,
  withStoreSeq: boolean,
  out: Out,
): void {
  out.push({ ...ask(s, t, 'positions'), kind: 'read-positions', behind, withStoreSeq });
}

const intervalOf = (row: MembershipRow): Interval => ({
  generation: row.generation,
  incarnation: row.incarnation,
  joinCursor: row.joinCursor,
  cursorSource: row.cursorSource,
  ...(row.leaveCursor === undefined ? {} : { leaveCursor: row.leaveCursor }),
  ...(row.lost === undefined ? {} : { lost: row.lost }),
});

function catchUp(s: State, t: Task, row: MembershipRow, out: Out): void {
  if (t.caughtUp?.generation === row.generation) {
    const lost = t.caughtUp.lost ?? row.lost;
    const active = { ...row, state: 'active', writer: s.writer } as const;
    write(s, t, lost === undefined ? active : { ...active, lost }, out);
    return;
  }
  if (t.copying?.generation === row.generation) {
    t.waiting = 'catch-up';
    t.token = t.copying.token;
    return;
  }
  if (!enter(s.gates['catch-up'], t.key)) {
    t.waiting = 'turn';
    return;
  }
  out.push({ ...ask(s, t, 'decided'), kind: 'read-decided' });
}

function markLeaving(s: State, t: Task, row: MembershipRow, out: Out): void {
  if (t.positions === undefined) {
    readPositions(s, t, undefined, false, out);
    return;
  }
  const leaveCursor = leaveCursorOf(row, t.positions.frontier);
  write(s, t, { ...row, state: 'leaving', leaveCursor, writer: s.writer }, out);
}

/** The present interval and those that a recreated channel stream left behind. */
function close(s: State, t: Task, row: MembershipRow, out: Out): void {
  const left = [row, ...row.past].find((i) => !t.cleared.has(i.generation));
  if (left === undefined) {
    // Posts went on being copied until the row said leaving: only a frontier read since then lies
    // behind them all, whichever process copied them.
    if (t.positions === undefined) {
      readPositions(s, t, undefined, false, out);
      return;
    }
    const leaveCursor = leaveCursorOf(row, t.positions.frontier);
    write(s, t, { ...row, state: 'closed', leaveCursor, writer: s.writer, past: [] }, out);
    return;
  }
  if (!enter(s.gates.close, t.key)) {
    t.waiting = 'turn';
    return;
  }
  t.closing = left.generation;
  t.positions = undefined;
  out.push({
    ...ask(s, t, 'close'),
    kind: 'close-boundary',
    member: t.member,
    channel: t.channel,
    generation: left.generation,
    leaveCursor: left.leaveCursor ?? left.joinCursor,
  });
}

function write(s: State, t: Task, row: MembershipRow | undefined, out: Out): void {
  const expected = t.write?.expected ?? rowOf(s, t)?.revision ?? 0;
  // A write that an earlier goal left behind is none of this goal's doing.
  if (t.write === undefined) t.wrote = true;
  t.write ??= { row, expected };
  const at = ask(s, t, 'write');
  if (row === undefined) out.push({ ...at, kind: 'remove-row', expected });
  else out.push({ ...at, kind: 'write-row', row, expected });
}

/** The goal is reached: answer, then the next in the queue. */
function finish(s: State, t: Task, out: Out): void {
  const row = rowOf(s, t)?.row;
  const asked = t.asked;
  if (asked?.goal === 'join' && row !== undefined) {
    s.counters.joins++;
    const { generation, joinCursor, cursorSource, lost } = row;
    const data = { durable: true, generation, joinCursor, cursorSource } as const;
    answer(s, out, asked.request, {
      ok: true,
      data: lost === undefined ? data : { ...data, lost },
    });
  } else if (asked?.goal === 'leave') {
    s.counters.leaves++;
    const data = {
      channel: t.channel,
      leaveCursor: row?.leaveCursor ?? 0,
      disposed: t.disposed,
    };
    answer(s, out, asked.request, {
      ok: true,
      data: t.wrote ? data : { ...data, alreadyLeft: true },
    });
  } else if (asked?.goal === 'remove') removed(s, t, out);
  t.asked = undefined;
  takeNext(s, t, out);
}

function removed(s: State, t: Task, out: Out): void {
  const r = s.retirements.get(t.member);
  if (r === undefined || !r.open.delete(t.key)) return;
  if (t.wrote) r.removed++;
  r.disposed += t.disposed;
  if (r.open.size > 0) return;
  s.retirements.delete(t.member);
  const data = { removed: r.removed, disposed: r.disposed };
  for (const request of r.requests) answer(s, out, request, { ok: true, data });
}

/** The request cannot be had. What is half done goes on without it. */
export function fail(s: State, t: Task, code: ErrorCode, detail: string, out: Out): void {
  const asked = t.asked;
  if (asked?.goal === 'join' || asked?.goal === 'leave') {
    const outcome = t.wrote && isOpenEnded(s, t) ? 'unknown' : 'not-executed';
    answer(s, out, asked.request, failure(code, outcome, detail));
    t.asked = undefined;
    t.goal = 'settle';
  }
  if (isOpenEnded(s, t) || t.asked !== undefined) backOff(s, t, detail, out);
  else takeNext(s, t, out);
}

export function backOff(s: State, t: Task, why: string, out: Out): void {
  s.counters.backOffs++;
  leaveGates(s, t, out);
  const { retryFirstMs, retryCeilingMs } = s.settings;
  const ms = Math.min(retryFirstMs * 2 ** Math.min(t.tries, 20), retryCeilingMs);
  t.tries++;
  // The first, second, fourth … of a row: steady noise is counted, not repeated.
  if ((t.tries & (t.tries - 1)) === 0)
    out.push({
      kind: 'report',
      report: { event: 'registry.backing-off', key: t.key, why, tries: t.tries },
    });
  out.push({ ...ask(s, t, 'back-off'), kind: 'wait', ms });
  yieldToQueue(s, t, out);
}

/** Work that nobody waits for gives way to whoever does; a removal is finished first. */
export function yieldToQueue(s: State, t: Task, out: Out): void {
  if (t.asked === undefined && t.queue.length > 0) takeNext(s, t, out);
}

/** The next request of the key becomes the goal; with none left and nothing half done it rests. */
export function takeNext(s: State, t: Task, out: Out): void {
  const asked: Asked | undefined = t.queue.shift();
  if (asked === undefined && !isOpenEnded(s, t)) {
    leaveGates(s, t, out);
    s.tasks.delete(t.key);
    return;
  }
  t.asked = asked;
  t.goal = asked?.goal ?? 'settle';
  t.right = false;
  t.positions = undefined;
  t.tries = 0;
  t.conflicts = 0;
  t.wrote = false;
  t.disposed = 0;
  const w = t.waiting;
  // Answers about the row itself are awaited by any goal.
  if (w === 'write' || w === 'read-back' || w === 'close') return;
  if (w === 'catch-up' && (t.goal === 'join' || t.goal === 'settle')) return;
  t.token = 0;
  t.waiting = undefined;
  leaveGates(s, t, out);
  advance(s, t, out);
}

export function leaveGates(s: State, t: Task, out: Out): void {
  for (const g of [s.gates['catch-up'], s.gates.close]) {
    const next = s.tasks.get(leave(g, t.key) ?? '');
    if (next !== undefined) advance(s, next, out);
  }
}

export const causeOf = (o: Exclude<Outcome<unknown>, { kind: 'done' }>): string =>
  o.kind === 'unknown' ? o.cause : `${o.reason} ${o.detail}`.trim();
