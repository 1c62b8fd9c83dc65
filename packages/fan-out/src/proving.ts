import { advance, covered, noteLate } from './cursor.ts';
import { fenceLost, goOnWhenDrained, trouble } from './ending.ts';
import type { Answer, Copy, Decision, Event, FanOutCursor, PostInWork, State } from './model.ts';
import { bury, closeFor, publish, pump } from './taking.ts';

/** What an answer of the stores proves: laws A, B and C of `machine.ts`. */

/** Publishes of one copy that the store may falsely call duplicates before everything backs off. */
export const ATTEMPTS_MAX = 8;

export function onAnswered(s: State, copy: Copy, answer: Answer, out: Decision[]): void {
  s.copiesOpen--;
  if (answer.kind === 'stored' && !answer.duplicate) {
    closeFor(s, copy.member);
    s.counters.copies++;
    s.storeSeq = Math.max(s.storeSeq, answer.storeSeq);
    proved(s, copy, answer.storeSeq, out);
  } else if (answer.kind === 'stored') {
    s.checksOpen++;
    out.push({ kind: 'verify', copy, storeSeq: answer.storeSeq });
  } else if (answer.kind === 'refused' && answer.reason === 'too-large') {
    closeFor(s, copy.member);
    neverStored(s, copy, answer.detail, out);
  } else {
    if (answer.kind === 'unknown') s.unresolved.push(copy.member);
    else closeFor(s, copy.member);
    failedWrite(s, answer, 'store', out);
  }
}

/** No repetition can store a copy that is too large: the post is buried and the copy given up. */
function neverStored(s: State, copy: Copy, detail: string, out: Decision[]): void {
  const { work } = copy;
  if (s.phase === 'running') {
    bury(s, work, { reason: 'too-large', detail }, out);
    work.open--;
  }
  settleDown(s, out);
}

export function onVerified(
  s: State,
  event: Extract<Event, { kind: 'verified' }>,
  out: Decision[],
): void {
  s.checksOpen--;
  const { copy } = event;
  if (event.present === undefined) {
    s.unresolved.push(copy.member);
    trouble(s, 'store-unknown', event.cause, out);
    return;
  }
  closeFor(s, copy.member);
  if (event.present) {
    s.counters.duplicates++;
    noteLate(s, copy.work, event.storeSeq);
    proved(s, copy, event.storeSeq, out);
    return;
  }
  s.counters.falseDuplicates++;
  if (++copy.attempt > ATTEMPTS_MAX) trouble(s, 'false-duplicates', copy.entry, out);
  else if (s.phase === 'running') publish(s, copy, out);
  settleDown(s, out);
}

/** Law A: the only place where a written copy counts as stored. */
function proved(s: State, copy: Copy, storeSeq: number, out: Decision[]): void {
  copy.stored = true;
  copy.work.open--;
  out.push({ kind: 'announce', copy, storeSeq });
  settleDown(s, out);
}

export function onBuried(s: State, work: PostInWork, answer: Answer, out: Decision[]): void {
  s.burialsOpen--;
  if (answer.kind === 'stored') {
    s.deadSeq = Math.max(s.deadSeq, answer.storeSeq);
    if (!answer.duplicate && work.burial !== undefined) s.counters.buried[work.burial.reason]++;
    work.open--;
    settleDown(s, out);
  } else failedWrite(s, answer, 'dead', out);
}

export function onCursorAnswered(
  s: State,
  cursor: FanOutCursor,
  answer: Answer,
  out: Decision[],
): void {
  s.cursorOpen = undefined;
  if (answer.kind === 'stored') {
    covered(s, cursor, out);
    settleDown(s, out);
  } else failedWrite(s, answer, 'store', out);
}

function failedWrite(
  s: State,
  answer: Exclude<Answer, { kind: 'stored' }>,
  where: 'store' | 'dead',
  out: Decision[],
): void {
  if (answer.kind === 'unknown') {
    trouble(s, 'store-unknown', answer.cause, out);
    return;
  }
  const { reason } = answer;
  const detail = `${where === 'dead' ? 'dead posts: ' : ''}${reason} ${answer.detail}`.trim();
  if (reason === 'fence-lost') fenceLost(s, answer.detail, out);
  else if (reason === 'store-full') trouble(s, 'store-full', detail, out);
  else trouble(s, where === 'dead' ? 'dead-refused' : 'store-refused', detail, out);
}

/** After an answer: go on in whatever phase this is. */
function settleDown(s: State, out: Decision[]): void {
  if (s.phase === 'running' || s.phase === 'stopping') advance(s, out);
  if (s.phase === 'running') pump(s, out);
  else goOnWhenDrained(s, out);
}
