import {
  backOffMs,
  initial,
  SUPERVISOR_SETTINGS,
  type SupervisorEvent,
  type SupervisorState,
  step,
} from '@plane3/schedule-writer';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';

const S = SUPERVISOR_SETTINGS;
const run = (events: readonly SupervisorEvent[], from: SupervisorState = initial()) =>
  events.reduce((s, e) => step(s, e).state, from);
const fail = (nowMs: number): SupervisorEvent => ({
  kind: 'failed',
  failure: 'fault',
  why: 'x',
  nowMs,
  jitter: 0.5,
});

describe('the supervisor', () => {
  it('opens, serves, and after a failure closes and waits', () => {
    expect(step(initial(), { kind: 'start' })).toMatchObject({
      state: { kind: 'opening' },
      decisions: [{ kind: 'open' }],
    });
    const serving = run([{ kind: 'start' }, { kind: 'opened', nowMs: 0 }]);
    const { state, decisions } = step(serving, fail(10));
    expect(decisions).toEqual([{ kind: 'close' }, { kind: 'wait', waitMs: expect.any(Number) }]);
    expect(state).toMatchObject({ kind: 'waiting', failures: 1, why: 'x' });
    expect(step(state, { kind: 'waited' }).decisions).toEqual([{ kind: 'open' }]);
  });

  it('forgets its failures only after it has served for long', () => {
    const again: SupervisorEvent[] = [{ kind: 'waited' }, { kind: 'opened', nowMs: 0 }];
    const twice = run([{ kind: 'start' }, fail(0), ...again, fail(S.sustainedMs - 1)]);
    expect(twice.failures).toBe(2);
    expect(run([...again, fail(S.sustainedMs)], twice).failures).toBe(1);
  });

  it('waits longer each time, jittered, up to the maximum', () => {
    expect(backOffMs(1, 0, S)).toBe(S.backOffMsMin / 2);
    expect(backOffMs(1, 0.999, S)).toBeLessThanOrEqual(S.backOffMsMin);
    expect(backOffMs(2, 0, S)).toBe(S.backOffMsMin);
    expect(backOffMs(1e9, 0.999, S)).toBeLessThanOrEqual(S.backOffMsMax);
  });

  it('whatever happens: one thing open at a time, every open closed, nothing after a stop', () => {
    const event = fc.oneof(
      fc.constant<SupervisorEvent>({ kind: 'start' }),
      fc.constant<SupervisorEvent>({ kind: 'waited' }),
      fc.constant<SupervisorEvent>({ kind: 'stop' }),
      fc.nat(200_000).map((nowMs): SupervisorEvent => ({ kind: 'opened', nowMs })),
      fc.nat(200_000).map(fail),
    );
    fc.assert(
      fc.property(fc.array(event, { maxLength: 40 }), (events) => {
        let state = initial();
        let open = 0;
        let waiting = false;
        for (const e of events) {
          const next = step(state, e);
          state = next.state;
          for (const d of next.decisions) {
            if (d.kind === 'open') {
              open++;
              waiting = false;
            }
            if (d.kind === 'close') open = 0;
            if (d.kind === 'wait') {
              expect(d.waitMs).toBeLessThanOrEqual(S.backOffMsMax);
              expect(d.waitMs).toBeGreaterThan(0);
              waiting = true;
            }
          }
          if (e.kind === 'stop') waiting = false;
          expect(open).toBe(state.kind === 'opening' || state.kind === 'serving' ? 1 : 0);
          expect(waiting).toBe(state.kind === 'waiting');
        }
      }),
      { numRuns: 200 },
    );
  });
});
