import type { Outcome } from '@plane3/protocol';
import { gate } from './gates.ts';
import { boundOver, intake } from './intake.ts';
import type {
  Decided,
  Frontier,
  RightAnswer,
  SeqRange,
  StoredRow,
  StoreRefusal,
  WriteRefusal,
} from './membership.ts';
import type { Decision, Event, KeyEvent, Settings, State, Task } from './model.ts';
import { sameRow } from './row.ts';
import { apply, loaded, recreated, rowChanged } from './row-changes.ts';
import { RowIndex } from './row-index.ts';
import { advance, ask, backOff, causeOf, fail, leaveGates, type Out } from './work.ts';

export interface Step {
  readonly state: State;
  readonly decisions: readonly Decision[];
}

/** `writer`: incarnation of this process; it marks the rows that this process writes. */
export function initial(writer: string, settings: Settings): State {
  return {
    writer,
    token: 0,
    settings,
    phase: 'empty',
    incarnation: '',
    rows: new RowIndex(),
    tasks: new Map(),
    removedAt: new Map(),
    retirements: new Map(),
    open: new Map(),
    gates: { 'catch-up': gate(settings.catchUpsMax), close: gate(settings.closesMax) },
    counters: {
      joins: 0,
      leaves: 0,
      conflicts: 0,
      unknownWrites: 0,
      foreignChanges: 0,
      rebased: 0,
      backOffs: 0,
    },
  };
}

/**
 * What happened → what to do about it. The state is changed in place and handed back, for there
 * may be a hundred thousand rows in it. No clock and no randomness: the same events give the
 * same state.
 */
export function step(s: State, event: Event): Step {
  const out: Out = [];
  switch (event.kind) {
    case 'loaded':
      loaded(s, event.rows, event.incarnation, out);
      break;
    case 'row-changed':
      rowChanged(s, event, out);
      break;
    case 'store-recreated':
      recreated(s, { event: 'registry.store-recreated' }, out);
      break;
    case 'join-asked':
    case 'leave-asked':
    case 'retire-asked':
      intake(s, event, out);
      break;
    case 'bound-over':
      boundOver(s, event.request, out);
      break;
    default:
      answered(s, event, out);
  }
  return { state: s, decisions: out };
}

/** Something that a task waits for is there. What nobody waits for any more is ignored. */
function answered(s: State, event: Extract<Event, KeyEvent>, out: Out): void {
  const t = s.tasks.get(event.key);
  if (t === undefined || s.phase !== 'loaded') return;
  if (event.kind === 'catch-up-answered') copied(t, event);
  if (t.token !== event.token) return;
  t.waiting = undefined;
  switch (event.kind) {
    case 'right-answered':
      rightAnswered(s, t, event.answer, out);
      return;
    case 'positions-read':
      positionsRead(s, t, event.frontier, event.storeSeq, out);
      return;
    case 'write-answered':
      writeAnswered(s, t, event.outcome, out);
      return;
    case 'row-read':
      rowRead(s, t, event.outcome, out);
      return;
    case 'decided-read':
      decidedRead(s, t, event.decided, out);
      return;
    case 'catch-up-answered':
      caughtUp(s, t, event.outcome, out);
      return;
    case 'boundary-closed':
      boundaryClosed(s, t, event.outcome, out);
      return;
    case 'wait-over':
      advance(s, t, out);
      return;
  }
}

function rightAnswered(s: State, t: Task, answer: RightAnswer, out: Out): void {
  switch (answer) {
    case 'allow':
      t.right = true;
      advance(s, t, out);
      return;
    case 'refuse':
      fail(s, t, 'permission-denied', `may not read ${t.channel}`, out);
      return;
    case 'unknown-lifecycle':
      fail(s, t, 'unauthenticated', t.member, out);
      return;
    case 'cannot-tell':
      fail(s, t, 'unavailable', 'the read right cannot be told now', out);
      return;
  }
}

function positionsRead(
  s: State,
  t: Task,
  frontier: Outcome<Frontier>,
  storeSeq: Outcome<number>,
  out: Out,
): void {
  if (frontier.kind !== 'done') {
    backOff(s, t, `frontier: ${causeOf(frontier)}`, out);
    return;
  }
  if (storeSeq.kind !== 'done') {
    backOff(s, t, `members: ${causeOf(storeSeq)}`, out);
    return;
  }
  if (frontier.value.incarnation !== s.incarnation) {
    recreated(s, { event: 'registry.channel-stream-recreated' }, out);
    return;
  }
  t.positions = { frontier: frontier.value, storeSeq: storeSeq.value };
  t.tries = 0;
  advance(s, t, out);
}

function writeAnswered(s: State, t: Task, o: Outcome<number, WriteRefusal>, out: Out): void {
  if (t.write === undefined) {
    advance(s, t, out);
    return;
  }
  if (o.kind === 'done') {
    wrote(s, t, o.value, out);
    return;
  }
  if (o.kind === 'unknown' || o.reason === 'conflict') {
    // A conflict may be with an own write that nobody could vouch for: the row itself tells.
    if (o.kind === 'unknown') s.counters.unknownWrites++;
    readBack(s, t, out);
    return;
  }
  t.write = undefined;
  t.positions = undefined;
  fail(s, t, o.reason === 'store-full' ? 'resource-exhausted' : 'unavailable', causeOf(o), out);
}

function readBack(s: State, t: Task, out: Out): void {
  out.push({ ...ask(s, t, 'read-back'), kind: 'read-row' });
}

/** The awaited write is in the store at `revision`. */
function wrote(s: State, t: Task, revision: number, out: Out): void {
  if (t.write === undefined) return;
  apply(s, t.key, t.write.row, revision, out);
  t.write = undefined;
  t.positions = undefined;
  t.tries = 0;
  t.conflicts = 0;
  advance(s, t, out);
}

function rowRead(
  s: State,
  t: Task,
  o: Outcome<StoredRow | undefined, StoreRefusal>,
  out: Out,
): void {
  if (o.kind !== 'done') {
    backOff(s, t, `read back: ${causeOf(o)}`, out);
    return;
  }
  const mine = t.write;
  if (mine === undefined) {
    advance(s, t, out);
    return;
  }
  const found = o.value;
  const landed =
    mine.row === undefined ? found === undefined : found && sameRow(found.row, mine.row);
  if (landed) {
    wrote(s, t, found?.revision ?? mine.expected, out);
    return;
  }
  if ((found?.revision ?? 0) === mine.expected) {
    backOff(s, t, 'a write was not answered and is not there', out);
    return;
  }
  const { expected } = mine;
  s.counters.conflicts++;
  t.conflicts++;
  t.write = undefined;
  t.positions = undefined;
  apply(s, t.key, found?.row, found?.revision ?? expected, out);
  const { key, conflicts } = t;
  const report = { event: 'registry.conflict', key, expected, conflicts } as const;
  out.push({ kind: 'report', report });
  if (t.conflicts > s.settings.conflictsMax) {
    fail(s, t, 'conflict', `${conflicts} other writes came between`, out);
    return;
  }
  advance(s, t, out);
}

function decidedRead(s: State, t: Task, decided: Decided | undefined, out: Out): void {
  const row = s.rows.get(t.key)?.row;
  if (row?.state !== 'joining') {
    restart(s, t, out);
    return;
  }
  if (decided === undefined) {
    backOff(s, t, 'no post is decided yet', out);
    return;
  }
  if (decided.incarnation !== row.incarnation) {
    backOff(s, t, 'posts are decided in another incarnation', out);
    return;
  }
  const at = ask(s, t, 'catch-up');
  t.copying = { token: at.token, generation: row.generation };
  out.push({
    ...at,
    kind: 'catch-up',
    row,
    from: row.joinCursor,
    to: Math.max(row.joinCursor, decided.seq),
  });
}

/** True of the generation, whether or not anybody waits for it now. */
function copied(t: Task, e: Extract<Event, { kind: 'catch-up-answered' }>): void {
  if (t.copying?.token !== e.token) return;
  const { generation } = t.copying;
  t.copying = undefined;
  if (e.outcome.kind === 'done') t.caughtUp = { generation, lost: e.outcome.value.lost };
}

function caughtUp(s: State, t: Task, o: Outcome<{ readonly lost?: SeqRange }>, out: Out): void {
  if (o.kind !== 'done') {
    backOff(s, t, `catch-up: ${causeOf(o)}`, out);
    return;
  }
  const { lost } = o.value;
  if (lost !== undefined)
    out.push({ kind: 'report', report: { event: 'registry.lost', key: t.key, lost } });
  t.tries = 0;
  restart(s, t, out);
}

function boundaryClosed(
  s: State,
  t: Task,
  o: Outcome<{ readonly disposed: number }>,
  out: Out,
): void {
  if (o.kind !== 'done') {
    backOff(s, t, `boundary: ${causeOf(o)}`, out);
    return;
  }
  t.cleared.add(t.closing);
  t.disposed += o.value.disposed;
  t.tries = 0;
  restart(s, t, out);
}

function restart(s: State, t: Task, out: Out): void {
  leaveGates(s, t, out);
  advance(s, t, out);
}
