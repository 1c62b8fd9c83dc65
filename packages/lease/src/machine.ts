import { acquiring, startAcquire } from './acquire.ts';
import { stay } from './claim.ts';
import { doubting, holding } from './hold.ts';
import type { Identity, LeaseEvent, LeaseState, Step, Timing } from './model.ts';
import { releasing, startRelease } from './release.ts';

/**
 * The lease machine. Every way back, and what bounds it:
 * - acquiring → read again: `startMaxMs` without an answer, `CONFLICTS_MAX` lost races; a rival's
 *   row at most a TTL (then superseded) or until `observeMs` and the caller's wait are over;
 * - held → renew: paced by `renewEveryMs`, by `retryMs` while unanswered, ended by the window;
 * - doubting → ask again: `doubtMaxMs`; the quiesce before it: `quiesceMaxMs`;
 * - releasing → ask again: `releaseMaxMs`.
 */
export function initial(identity: Identity, timing: Timing): LeaseState {
  return { phase: 'idle', identity, timing, nextRequest: 1, wrote: false };
}

export function step(state: LeaseState, event: LeaseEvent): Step {
  switch (state.phase) {
    case 'idle':
      if (event.kind === 'acquire') return startAcquire(state, event.nowMs, event.waitMs);
      return event.kind === 'release' ? startRelease(state, event.nowMs) : stay(state);
    case 'acquiring':
      return acquiring(state, event);
    case 'held':
      return holding(state, event);
    case 'doubting':
      return doubting(state, event);
    case 'releasing':
      return releasing(state, event);
    case 'lost':
      return event.kind === 'release' ? startRelease(state, event.nowMs) : stay(state);
    case 'released':
      return stay(state);
  }
}

/** Whether a write may be made at this instant. Cheap and synchronous: asked before each write. */
export const isTrusted = (s: LeaseState, nowMs: number): boolean =>
  s.phase === 'held' && nowMs < s.term.trustedUntilMs;

/** When the next `tick` is due; undefined: only an answer or the host moves this state. */
export function nextWakeMs(s: LeaseState): number | undefined {
  switch (s.phase) {
    case 'held':
      return s.ask.kind === 'none'
        ? Math.min(s.ask.atMs, s.term.trustedUntilMs)
        : s.term.trustedUntilMs;
    case 'acquiring':
    case 'doubting':
      return s.ask.kind === 'none' ? s.ask.atMs : undefined;
    case 'releasing':
      return s.ask.kind === 'none' ? Math.min(s.ask.atMs, s.untilMs) : s.untilMs;
    case 'idle':
    case 'lost':
    case 'released':
      return undefined;
  }
}
