import { noCounts } from './counters.ts';
import { writeCursor, writeCursorIfBehind } from './cursor.ts';
import { end, fenceLost, goOnWhenDrained, halt, trouble } from './ending.ts';
import { Fifo } from './fifo.ts';
import type { Counters, Decision, Event, Limits, State, Stepped } from './model.ts';
import { onAnswered, onBuried, onCursorAnswered, onVerified } from './proving.ts';
import { beginning } from './recovery.ts';
import { closeFor, gone, onDecided, onPost, onRechecked, onSettle, pump } from './taking.ts';

/**
 * Fan-out as a machine: what happened goes in, what to do comes out. It knows no clock, no I/O
 * and no promise. For speed a step changes the state that it was given instead of copying it; the
 * caller uses only the returned one.
 *
 * The laws, cited below by letter:
 *
 * - A. The cursor names a post only when every copy and burial of it and of all before it is
 *   proved: acknowledged as new, or read back.
 * - B. `unknown` is neither. Everything stops, open writes are awaited (each has a bound), the
 *   store above the cursor is scanned, and the same ids are tried again.
 * - C. A refused fence ends it at once. Another holder writes now.
 * - D. There is one way in, whether after a start, a reconnect, an unknown answer or a full
 *   store: read, write the cursor (which proves the fence), open the source, run.
 * - E. At most one post is partly issued, so that a membership change meets few stale decisions.
 *
 * Loops back: false duplicate → publish (ATTEMPTS_MAX, then trouble); trouble → back-off →
 * recover (unbounded in number, spaced up to `backOffMaxMs`, ended by `stop` and by C).
 */

export const DEFAULT_LIMITS: Limits = {
  copiesOpenMax: 8192,
  postsOpenMax: 4096,
  postsAskedMax: 512,
  askChunk: 128,
  backOffMinMs: 50,
  backOffMaxMs: 2_000,
};

export const initial = (
  limits: Limits = DEFAULT_LIMITS,
  counters: Counters = noCounts(),
): State => ({
  limits,
  counters,
  phase: 'idle',
  reason: undefined,
  options: { fromSeqIfNoCursor: 1, onRecreated: 'refuse' },
  incarnation: '',
  cursor: undefined,
  cursorOpen: undefined,
  completed: 0,
  decided: undefined,
  window: new Fifo(),
  finished: 0,
  waiting: new Fifo(),
  issuing: undefined,
  deciding: false,
  directoryCurrent: true,
  asked: 0,
  copiesOpen: 0,
  checksOpen: 0,
  burialsOpen: 0,
  slots: new Map(),
  buried: new Set(),
  announced: new Map(),
  storeSeq: 0,
  deadSeq: 0,
  openByMember: new Map(),
  unresolved: [],
  late: undefined,
  foundThrough: 0,
  recoveredFloors: { storeFloor: 0, deadFloor: 0 },
  evictedThrough: 0,
  taken: 0,
  holes: 0,
  recoveriesInARow: 0,
  sourcePending: 0,
});

export function step(state: State, event: Event): Stepped {
  const out: Decision[] = [];
  apply(state, event, out);
  return { state, decisions: out };
}

function apply(s: State, event: Event, out: Decision[]): void {
  switch (event.kind) {
    case 'answered':
      onAnswered(s, event.copy, event.answer, out);
      break;
    case 'post':
      onPost(s, event, out);
      break;
    case 'decided':
      onDecided(s, event.plan, out);
      break;
    case 'cursor-answered':
      onCursorAnswered(s, event.cursor, event.answer, out);
      break;
    case 'verified':
      onVerified(s, event, out);
      break;
    case 'buried':
      onBuried(s, event.work, event.answer, out);
      break;
    case 'start':
      s.options = event.options;
      recover(s, out);
      break;
    case 'recovered':
      if (s.phase === 'recovering') onRecovered(s, event, out);
      break;
    case 'opened':
      if (s.phase === 'recovering') run(s, out);
      break;
    case 'failed':
      trouble(s, event.reason.trouble, event.reason.detail, out);
      break;
    case 'retry':
      if (s.phase === 'backing-off') recover(s, out);
      break;
    case 'directory':
      s.directoryCurrent = event.current;
      s.deciding = false;
      pump(s, out);
      break;
    case 'settle':
      onSettle(s, event.member, out);
      break;
    case 'rechecked':
      onRechecked(s, event.copy, event.owed, out);
      break;
    case 'caught-up':
      s.storeSeq = Math.max(s.storeSeq, event.storeSeq);
      s.counters.caughtUp++;
      break;
    case 'fence-lost':
      fenceLost(s, event.detail, out);
      break;
    case 'stop':
      onStop(s, out);
      break;
  }
}

function recover(s: State, out: Decision[]): void {
  s.phase = 'recovering';
  out.push({ kind: 'recover' });
}

function run(s: State, out: Decision[]): void {
  s.phase = 'running';
  s.reason = undefined;
  pump(s, out);
}

function onRecovered(
  s: State,
  event: Extract<Event, { kind: 'recovered' }>,
  out: Decision[],
): void {
  const begin = beginning(event.cursor, event.source, s.options);
  if (begin.kind === 'refused') {
    out.push({ kind: 'store-recreated', recreated: begin.recreated, refused: true });
    end(s, 'store-recreated', begin.recreated.why);
    return;
  }
  if (begin.recreated !== undefined) {
    out.push({ kind: 'store-recreated', recreated: begin.recreated, refused: false });
    s.decided = undefined;
    s.evictedThrough = 0;
    s.announced.clear();
  }
  if (begin.evicted !== undefined) gone(s, begin.evicted.from, begin.evicted.to, out);
  const from = Math.max(begin.seq, begin.evicted === undefined ? 1 : begin.evicted.to + 1);
  s.incarnation = event.source.incarnation;
  s.cursor = event.cursor;
  s.completed = from - 1;
  s.taken = from - 1;
  s.decided = Math.max(s.decided ?? 0, from - 1);
  s.slots = event.slots;
  s.buried = event.buried;
  s.foundThrough = event.foundThrough;
  s.recoveredFloors = {
    storeFloor: event.cursor?.storeFloor ?? 0,
    deadFloor: event.cursor?.deadFloor ?? 0,
  };
  s.late = undefined;
  s.storeSeq = event.storeSeq;
  s.deadSeq = event.deadSeq;
  s.sourcePending = Math.max(0, event.source.lastSeq - s.completed);
  // The scan has answered for every write that nobody could answer for.
  for (const member of s.unresolved) closeFor(s, member);
  s.unresolved = [];
  // A fenced write proves that no other holder has begun, before the consumer is taken from it.
  writeCursor(s, out);
}

function onStop(s: State, out: Decision[]): void {
  if (s.phase === 'stopped' || s.phase === 'stopping') return;
  // After a drain the window is forgotten, and with it what a cursor would have to say.
  const windowStands = s.phase === 'running' || s.phase === 'draining';
  halt(s, out);
  s.phase = 'stopping';
  s.reason = { trouble: 'requested', detail: '' };
  if (windowStands) writeCursorIfBehind(s, out);
  goOnWhenDrained(s, out);
}
