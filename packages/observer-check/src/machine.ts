import { check, checkObserverAlone } from './check.ts';
import type {
  Admission,
  AdmissionEvent,
  AdmissionState,
  AdmissionStep,
  Question,
} from './model.ts';

/** Reads the observer, then the evictor, then decides once. There is no way back. */
export const initial = (question: Question): AdmissionStep => ({
  state: { phase: 'observer', question },
  decisions: [{ kind: 'read', name: 'membership-observer' }],
});

export function step(state: AdmissionState, event: AdmissionEvent): AdmissionStep {
  if (state.phase === 'observer' && event.name === 'membership-observer') {
    const refusal = checkObserverAlone(event.found, state.question);
    if (refusal !== undefined) return decide(refusal);
    return {
      state: { phase: 'evictor', question: state.question, observer: event.found },
      decisions: [{ kind: 'read', name: 'connection-evictor' }],
    };
  }
  if (state.phase === 'evictor' && event.name === 'connection-evictor')
    return decide(check(state.observer, event.found, state.question));
  return { state, decisions: [] };
}

const decide = (admission: Admission): AdmissionStep => ({
  state: { phase: 'decided', admission },
  decisions: [{ kind: 'decide', admission }],
});
