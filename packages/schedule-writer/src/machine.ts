/**
 * The writer's own supervisor, as a machine. The writer is a lodger in its host: it comes up by
 * itself, and whatever happens to it stays in here.
 *
 * Loop-back paths and what bounds them: every failure leads to exactly one wait; waits grow to
 * `backOffMsMax`; the count of failures starts anew only after `sustainedMs` of serving, so that
 * one that fails at its first request is not restarted at full speed.
 */
export interface SupervisorSettings {
  readonly backOffMsMin: number;
  readonly backOffMsMax: number;
  readonly sustainedMs: number;
}

export const SUPERVISOR_SETTINGS: SupervisorSettings = {
  backOffMsMin: 250,
  backOffMsMax: 10_000,
  sustainedMs: 60_000,
};

/** `unavailable` needs somebody's act (an old broker, a missing stream), `fault` only time. */
export type FailureKind = 'fault' | 'unavailable';

export type SupervisorState =
  | { readonly kind: 'stopped'; readonly failures: number }
  | { readonly kind: 'opening'; readonly failures: number }
  | { readonly kind: 'serving'; readonly failures: number; readonly sinceMs: number }
  | {
      readonly kind: 'waiting';
      readonly failures: number;
      readonly failure: FailureKind;
      readonly why: string;
      readonly untilMs: number;
    };

/** Times are monotonic milliseconds; `jitter` is a random number in [0, 1). */
export type SupervisorEvent =
  | { readonly kind: 'start' }
  | { readonly kind: 'opened'; readonly nowMs: number }
  | {
      readonly kind: 'failed';
      readonly failure: FailureKind;
      readonly why: string;
      readonly nowMs: number;
      readonly jitter: number;
    }
  | { readonly kind: 'waited' }
  | { readonly kind: 'stop' };

export type SupervisorDecision =
  | { readonly kind: 'open' }
  | { readonly kind: 'close' }
  | { readonly kind: 'wait'; readonly waitMs: number };

export interface Step {
  readonly state: SupervisorState;
  readonly decisions: readonly SupervisorDecision[];
}

export const initial = (): SupervisorState => ({ kind: 'stopped', failures: 0 });

const OPEN: readonly SupervisorDecision[] = [{ kind: 'open' }];
const CLOSE: readonly SupervisorDecision[] = [{ kind: 'close' }];

export function step(
  state: SupervisorState,
  event: SupervisorEvent,
  settings: SupervisorSettings = SUPERVISOR_SETTINGS,
): Step {
  const stay: Step = { state, decisions: [] };
  switch (event.kind) {
    case 'start':
      if (state.kind !== 'stopped') return stay;
      return { state: { kind: 'opening', failures: 0 }, decisions: OPEN };
    case 'opened':
      if (state.kind !== 'opening') return stay;
      return {
        state: { kind: 'serving', failures: state.failures, sinceMs: event.nowMs },
        decisions: [],
      };
    case 'failed':
      return failed(state, event, settings);
    case 'waited':
      if (state.kind !== 'waiting') return stay;
      return { state: { kind: 'opening', failures: state.failures }, decisions: OPEN };
    case 'stop':
      if (state.kind === 'stopped') return stay;
      return { state: initial(), decisions: CLOSE };
  }
}

function failed(
  state: SupervisorState,
  event: Extract<SupervisorEvent, { kind: 'failed' }>,
  settings: SupervisorSettings,
): Step {
  // A second failure of the same run says nothing new.
  if (state.kind === 'stopped' || state.kind === 'waiting') return { state, decisions: [] };
  const isSustained =
    state.kind === 'serving' && event.nowMs - state.sinceMs >= settings.sustainedMs;
  const failures = (isSustained ? 0 : state.failures) + 1;
  const waitMs = backOffMs(failures, event.jitter, settings);
  return {
    state: {
      kind: 'waiting',
      failures,
      failure: event.failure,
      why: event.why,
      untilMs: event.nowMs + waitMs,
    },
    decisions: [...CLOSE, { kind: 'wait', waitMs }],
  };
}

/** Doubles with each failure up to the maximum; the upper half is random. */
export function backOffMs(failures: number, jitter: number, s: SupervisorSettings): number {
  const doublings = Math.min(failures - 1, 30);
  const fullMs = Math.min(s.backOffMsMax, s.backOffMsMin * 2 ** doublings);
  return Math.round(fullMs / 2 + (fullMs / 2) * jitter);
}
