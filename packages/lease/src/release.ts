import { answers, isMine, read, stay, wait } from './claim.ts';
import type { Ask, LeaseEvent, LeaseState, Released, Releasing, Step } from './model.ts';

/**
 * Give back what is mine, by compare-and-set on my own revision, from any state and within a
 * bound. A write that is still under way is waited for first: it may be the row.
 */
export function startRelease(s: LeaseState, nowMs: number): Step {
  const { identity, timing, nextRequest, wrote } = s;
  const common = { identity, timing, nextRequest, wrote };
  if (s.phase === 'releasing' || s.phase === 'released') return stay(s);
  const state: Releasing = {
    ...common,
    phase: 'releasing',
    untilMs: nowMs + timing.releaseMaxMs,
    ask: { kind: 'none', atMs: nowMs },
  };
  if (!wrote) return released(state, false);
  const ask: Ask | undefined = 'ask' in s ? s.ask : undefined;
  if (ask?.kind === 'write') return stay({ ...state, ask });
  if (s.phase === 'held' && !s.unsure) return remove(state, s.term.revision);
  return read(state);
}

export function releasing(s: Releasing, e: LeaseEvent): Step {
  switch (e.kind) {
    case 'written':
      if (!answers(s.ask, e.request)) return stay(s);
      if (e.answer.kind === 'done')
        return s.ask.kind === 'write' ? remove(s, e.answer.value) : released(s, false);
      if (e.answer.kind === 'unknown' || e.answer.reason === 'conflict') return read(s);
      return s.ask.kind === 'write' ? read(s) : released(s, true);
    case 'read':
      if (!answers(s.ask, e.request)) return stay(s);
      if (e.answer.kind !== 'done') return wait(s, e.nowMs + s.timing.retryMs);
      return e.answer.value !== undefined && isMine(s.identity, e.answer.value)
        ? remove(s, e.answer.value.revision)
        : released(s, false);
    case 'tick':
      if (e.nowMs >= s.untilMs) return released(s, true);
      return s.ask.kind === 'none' && e.nowMs >= s.ask.atMs ? read(s) : stay(s);
    case 'acquire':
    case 'judged':
    case 'noticed':
    case 'renew':
    case 'fence-refused':
    case 'quiesced':
    case 'release':
      return stay(s);
  }
}

function remove(s: Releasing, revision: number): Step {
  const request = s.nextRequest;
  return {
    state: { ...s, nextRequest: request + 1, ask: { kind: 'remove', request } },
    decisions: [{ kind: 'remove-row', request, revision }],
  };
}

function released(s: Releasing, rowLeft: boolean): Step {
  const { identity, timing, nextRequest, wrote } = s;
  const state: Released = { phase: 'released', identity, timing, nextRequest, wrote, rowLeft };
  return { state, decisions: [{ kind: 'released', rowLeft }] };
}
