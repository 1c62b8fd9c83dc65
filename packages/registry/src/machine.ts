import type { Outcome } from '@plane3/protocol';
import { gate } from './gates.ts';
import { boundOver, intake } from './intake.ts';
import type {
  Decided,
  Decision,
  Event,
  Frontier,
  KeyEvent,
  RightAnswer,
  SeqRange,
  Settings,
  State,
  StoredRow,
  StoreRefusal,
  Task,
  WriteRefusal,
} from './model.ts';
import { sameRow } from './row.ts';
import { RowIndex } from './row-index.ts';
import { apply, loaded, recreated, rowChanged } from './row-changes.ts';
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
  if (t === undefined || t.token !== event.token || s.phase !== 'loaded') return;
  t.waiting = undefined;
  switch (event.kind) {
    case 'right-answered':
      return rightAnswered(s, t, event.answer, out);
    case 'positions-read':
      return positionsRead(s, t, event.frontier, event.storeSeq, out);
    case 'write-answered':
      return writeAnswered(s, t, event.outcome, out);
    case 'row-read':
      return rowRead(s, t, event.outcome, out);
    case 'decided-read':
      return decidedRead(s, t, event.decided, out);
    case 'catch-up-answered':
      return caughtUp(s, t, event.outcome, out);
    case 'boundary-closed':
      return boundaryClosed(s, t, event.outcome, out);
    case 'wait-over':
      return advance(s, t, out);
  }
}

function rightAnswered(s: State, t: Task, answer: RightAnswer, out: Out): void {
  switch (answer) {
    case 'allow':
      t.right = true;
      return advance(s, t, out);
    case 'refuse':
      return fail(s, t, 'permission-denied', `may not read ${t.channel}`, out);
    case 'unknown-lifecycle':
      return fail(s, t, 'unauthenticated', t.member, out);
    case 'cannot-tell':
      return fail(s, t, 'unavailable', 'the read right cannot be told now', out);
  }
}

function positionsRead(
  s: State,
  t: Task,
  frontier: Outcome<Frontier>,
  storeSeq: Outcome<number>,
  out: Out,
): void {
  if (frontier.kind !== 'done') return backOff(s, t, `frontier: ${causeOf(frontier)}`, out);
  if (storeSeq.kind !== 'done') return backOff(s, t, `members: ${causeOf(storeSeq)}`, out);
  if (frontier.value.incarnation !== s.incarnation)
    return recreated(s, { event: 'registry.channel-stream-recreated' }, out);
  t.positions = { frontier: frontier.value, storeSeq: storeSeq.value };
  t.tries = 0;
  advance(s, t, out);
}

function writeAnswered(s: State, t: Task, o: Outcome<number, WriteRefusal>, out: Out): void {
  if (t.write === undefined) return advance(s, t, out);
  if (o.kind === 'done') return wrote(s, t, o.value, out);
  if (o.kind === 'unknown' || o.reason === 'conflict') {
    // A conflict may be with an own write that nobody could vouch for: the row itself tells.
    if (o.kind === 'unknown') s.counters.unknownWrites++;
    return readBack(s, t, out);
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
  if (o.kind !== 'done') return backOff(s, t, `read back: ${causeOf(o)}`, out);
  const mine = t.write;
  if (mine === undefined) return advance(s, t, out);
  const found = o.value;
  const landed =
    mine.row === undefined ? found === undefined : found && sameRow(found.row, mine.row);
  if (landed) return wrote(s, t, found?.revision ?? mine.expected, out);
  if ((found?.revision ?? 0) === mine.expected)
    return backOff(s, t, 'a write was not answered and is not there', out);
  const { expected } = mine;
  s.counters.conflicts++;
  t.conflicts++;
  t.write = undefined;
  t.positions = undefined;
  apply(s, t.key, found?.row, found?.revision ?? expected, out);
  const { key, conflicts } = t;
  const report = { event: 'registry.conflict', key, expected, conflicts } as const;
  out.push({ kind: 'report', report });
  if (t.conflicts > s.settings.conflictsMax)
    return fail(s, t, 'conflict', `${conflicts} other writes came between`, out);
  advance(s, t, out);
}

function decidedRead(s: State, t: Task, decided: Decided | undefined, out: Out): void {
  const row = s.rows.get(t.key)?.row;
  if (row?.state !== 'joining') return restart(s, t, out);
  if (decided === undefined) return backOff(s, t, 'no post is decided yet', out);
  if (decided.incarnation !== row.incarnation)
    return backOff(s, t, 'posts are decided in another incarnation', out);
  t.workGeneration = row.generation;
  out.push({
    ...ask(s, t, 'catch-up'),
    kind: 'catch-up',
    row,
    from: row.joinCursor,
    to: Math.max(row.joinCursor, decided.seq),
  });
}

function caughtUp(
  s: State,
  t: Task,
  o: Outcome<{ readonly lost?: SeqRange }>,
  out: Out,
): void {
  if (o.kind !== 'done') return backOff(s, t, `catch-up: ${causeOf(o)}`, out);
  const { lost } = o.value;
  if (lost !== undefined)
    out.push({ kind: 'report', report: { event: 'registry.lost', key: t.key, lost } });
  t.caughtUp = { generation: t.workGeneration, lost };
  t.tries = 0;
  restart(s, t, out);
}

function boundaryClosed(
  s: State,
  t: Task,
  o: Outcome<{ readonly disposed: number }>,
  out: Out,
): void {
  if (o.kind !== 'done') return backOff(s, t, `boundary: ${causeOf(o)}`, out);
  t.cleared.add(t.workGeneration);
  t.disposed += o.value.disposed;
  t.tries = 0;
  restart(s, t, out);
}

function restart(s: State, t: Task, out: Out): void {
  leaveGates(s, t, out);
  advance(s, t, out);
}
