import { answers, isMine, read, stay, took, wait, write } from './claim.ts';
import type {
  Ask,
  Decision,
  Doubting,
  DoubtReason,
  Held,
  LeaseEvent,
  LossReason,
  Lost,
  RowSeen,
  Step,
} from './model.ts';
import { startRelease } from './release.ts';
import { windowMs } from './timing.ts';

/** A term that is trusted, or was until this very event. */
export function holding(s: Held, e: LeaseEvent): Step {
  if (e.kind === 'release') return startRelease(s, e.nowMs);
  // A confirmed renewal proves more than the clock does: nobody can have been in between.
  const confirms = e.kind === 'written' && e.answer.kind === 'done' && answers(s.ask, e.request);
  if (!confirms && e.nowMs >= s.term.trustedUntilMs) return doubt(s, 'window-passed', e.nowMs);
  switch (e.kind) {
    case 'written':
      return s.ask.kind === 'write' && answers(s.ask, e.request) ? onWritten(s, s.ask, e) : stay(s);
    case 'read':
      return answers(s.ask, e.request) ? onRead(s, e) : stay(s);
    case 'noticed':
      return onNoticed(s, e);
    case 'fence-refused':
      return doubt(s, 'fence-refused', e.nowMs);
    case 'tick':
      if (s.ask.kind !== 'none' || e.nowMs < s.ask.atMs) return stay(s);
      return s.unsure ? read(s) : renew(s, e.nowMs);
    case 'renew': {
      const wanting = { ...s, wantReady: s.wantReady || e.ready };
      if (s.ask.kind !== 'none' || s.unsure) return stay({ ...wanting, again: true });
      return renew(wanting, e.nowMs);
    }
    case 'acquire':
    case 'judged':
    case 'quiesced':
      return stay(s);
  }
}

const renew = (s: Held, nowMs: number): Step =>
  write<Held>(
    { ...s, again: false },
    { expectedRevision: s.term.revision, how: 'adopted', ready: s.wantReady, nowMs },
  );

/** My row is stored at `revision`, written by the attempt that began at `attemptMs`. */
function confirmed(s: Held, revision: number, attemptMs: number, ready: boolean, nowMs: number) {
  const trustedUntilMs = Math.max(s.term.trustedUntilMs, attemptMs + windowMs(s.timing));
  const next: Held = { ...s, term: { ...s.term, revision, trustedUntilMs }, ready, unsure: false };
  if (nowMs >= trustedUntilMs) return doubt(next, 'window-passed', nowMs);
  const told: Decision = { kind: 'renewed', revision, attemptMs, ready };
  const after = s.again
    ? renew(next, nowMs)
    : wait(next, Math.max(nowMs, attemptMs + s.timing.renewEveryMs));
  return { state: after.state, decisions: [told, ...after.decisions] };
}

function onWritten(
  s: Held,
  ask: Extract<Ask, { kind: 'write' }>,
  e: Extract<LeaseEvent, { kind: 'written' }>,
): Step {
  const { answer, nowMs } = e;
  if (answer.kind === 'done')
    return confirmed(s, answer.value, ask.row.attemptMs, ask.row.ready, nowMs);
  if (answer.kind === 'unknown') return read({ ...s, unsure: true });
  if (answer.reason === 'conflict') return doubt(s, 'renewal-refused', nowMs);
  // Not written, and the row is untouched: the window still counts. It ends the term if this stays.
  return wait(s, nowMs + s.timing.retryMs);
}

/** Only after an unanswered renewal (I29). */
function onRead(s: Held, e: Extract<LeaseEvent, { kind: 'read' }>): Step {
  const { answer, nowMs } = e;
  if (answer.kind !== 'done') return wait(s, nowMs + s.timing.retryMs);
  const seen = answer.value;
  if (seen === undefined) return doubt(s, 'row-gone', nowMs);
  if (seen.row === undefined || !isMine(s.identity, seen)) return doubt(s, 'row-taken', nowMs);
  if (seen.revision === s.term.revision) return renew({ ...s, unsure: false }, nowMs);
  return confirmed(s, seen.revision, seen.row.attemptMs, seen.row.ready, nowMs);
}

/** A notice older than my revision is history; one of my own is answered by the renewal itself. */
function onNoticed(s: Held, e: Extract<LeaseEvent, { kind: 'noticed' }>): Step {
  if (e.revision <= s.term.revision || e.incarnation === s.identity.incarnation) return stay(s);
  return doubt(s, e.removed ? 'row-gone' : 'row-taken', e.nowMs);
}

/** Quiesce first; the question waits for `quiesced`. */
function doubt(s: Held, reason: DoubtReason, nowMs: number): Step {
  const { identity, timing, nextRequest, wrote } = s;
  const state: Doubting = {
    phase: 'doubting',
    identity,
    timing,
    nextRequest,
    wrote,
    reason,
    sinceMs: nowMs,
    quiesced: false,
    ask: { kind: 'none', atMs: nowMs + timing.quiesceMaxMs },
  };
  return { state, decisions: [{ kind: 'quiesce', reason }] };
}

export function doubting(s: Doubting, e: LeaseEvent): Step {
  switch (e.kind) {
    case 'release':
      return startRelease(s, e.nowMs);
    case 'quiesced':
      return s.quiesced ? stay(s) : read({ ...s, quiesced: true });
    case 'tick':
      if (s.ask.kind !== 'none' || e.nowMs < s.ask.atMs) return stay(s);
      return s.quiesced ? read(s) : lose(s, 'quiesce-stuck', `${s.timing.quiesceMaxMs} ms`);
    case 'read': {
      if (!answers(s.ask, e.request)) return stay(s);
      if (e.answer.kind !== 'done') {
        const why = e.answer.kind === 'unknown' ? e.answer.cause : e.answer.detail;
        return unanswered(s, why, e.nowMs);
      }
      return onAnswer(s, e.answer.value, e.nowMs);
    }
    case 'written': {
      if (s.ask.kind !== 'write' || !answers(s.ask, e.request)) return stay(s);
      const { answer } = e;
      if (answer.kind === 'done') return took(s, answer.value, s.ask, e.nowMs);
      if (answer.kind === 'unknown' || answer.reason === 'conflict') return read(s);
      return unanswered(s, answer.detail, e.nowMs);
    }
    case 'noticed':
      return s.quiesced && s.ask.kind === 'none' ? read(s) : stay(s);
    case 'acquire':
    case 'judged':
    case 'renew':
    case 'fence-refused':
      return stay(s);
  }
}

/** Adopt what is mine, re-take what is nobody's, leave what is another's. */
function onAnswer(s: Doubting, seen: RowSeen | undefined, nowMs: number): Step {
  if (seen === undefined)
    return write(s, { expectedRevision: 0, how: 'created', ready: false, nowMs });
  if (isMine(s.identity, seen))
    return write(s, { expectedRevision: seen.revision, how: 'adopted', ready: false, nowMs });
  return lose(s, 'taken', `by ${seen.row?.incarnation ?? 'an unreadable row'}`);
}

function unanswered(s: Doubting, why: string, nowMs: number): Step {
  if (nowMs - s.sinceMs >= s.timing.doubtMaxMs) return lose(s, 'unreachable', why);
  return wait(s, nowMs + s.timing.retryMs);
}

function lose(s: Doubting, reason: LossReason, detail: string): Step {
  const { identity, timing, nextRequest, wrote } = s;
  const state: Lost = { phase: 'lost', identity, timing, nextRequest, wrote, reason };
  return { state, decisions: [{ kind: 'lost', reason, detail }] };
}
