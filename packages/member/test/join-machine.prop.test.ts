import {
  initialJoin,
  type JoinDecision,
  type JoinEvent,
  type JoinState,
  RETRY_FIRST_MS,
  RETRY_MAX_MS,
  reportOf,
  retryAfterMs,
  stepJoin,
} from '@plane3/member';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

const reason = { code: 'unavailable', text: 'nobody serves the endpoint' };
const listed = (c: 'durable' | 'live' = 'durable', frontier = 40): JoinEvent => ({
  type: 'listed',
  class: c,
  frontier,
});
const joined: JoinEvent = { type: 'joined', generation: 2, joinCursor: 40, lost: undefined };
const failed = (outcome: 'not-executed' | 'unknown' = 'not-executed'): JoinEvent => ({
  type: 'join-failed',
  code: 'unavailable',
  text: 'x',
  outcome,
});
const kinds = (d: readonly JoinDecision[]): string[] => d.map((x) => x.kind);

/** Plays events from the start; gives the state and the decisions of each step. */
function play(...events: JoinEvent[]): { readonly s: JoinState; readonly d: string[][] } {
  const s = initialJoin('team');
  return { s, d: events.map((e) => kinds(stepJoin(s, e))) };
}

describe('the join of a channel', () => {
  test('frontier, live subscription, membership, in this order', () => {
    const { s, d } = play({ type: 'join' }, listed(), { type: 'subscribed' }, joined);
    expect(d).toEqual([['list'], ['subscribe'], ['join'], ['settled']]);
    expect(reportOf(s)).toMatchObject({ live: true, durable: true, text: 'joined durable' });
  });

  test('a live channel needs no membership', () => {
    const { s, d } = play({ type: 'join' }, listed('live'), { type: 'subscribed' });
    expect(d.at(-1)).toEqual(['settled']);
    expect(reportOf(s)).toMatchObject({ live: true, durable: false, text: 'joined live' });
  });

  test('without a daemon it is joined live, says so with the reason, and is tried again', () => {
    const { s, d } = play(
      { type: 'join' },
      { type: 'list-failed', reason },
      { type: 'subscribed' },
    );
    expect(d).toEqual([['list'], ['subscribe'], ['settled', 'retry']]);
    expect(reportOf(s)).toMatchObject({
      live: true,
      durable: false,
      retrying: true,
      text: 'joined live, durable backstop unestablished (unavailable: nobody serves the endpoint)',
    });
  });

  test('every retry claims the frontier that the first join asked with', () => {
    const s = initialJoin('team');
    const first = [{ type: 'join' }, listed('durable', 40), { type: 'subscribed' }, failed()];
    for (const e of first as JoinEvent[]) stepJoin(s, e);
    stepJoin(s, { type: 'retry-due' });
    expect(stepJoin(s, listed('durable', 99))).toEqual([{ kind: 'join', joinCursor: 40 }]);
  });

  test('a refused subscription asks for no membership', () => {
    const { s, d } = play({ type: 'join' }, listed(), { type: 'live-refused', reason });
    expect(d.at(-1)).toEqual(['settled']);
    expect(reportOf(s)).toMatchObject({ live: false, durable: false });
  });

  test.each([
    ['held', [joined], { type: 'live-refused', reason }],
    ['being asked for', [{ type: 'live-refused', reason }], joined],
    ['uncertain', [{ type: 'live-refused', reason }], failed('unknown')],
  ] as [string, JoinEvent[], JoinEvent][])(
    'a late refusal takes back a membership that is %s',
    (_, before, last) => {
      const { s, d } = play({ type: 'join' }, listed(), { type: 'subscribed' }, ...before, last);
      expect(d.at(-1)).toEqual(['leave']);
      expect(reportOf(s).durable).toBe(false);
      expect(kinds(stepJoin(s, { type: 'leave-failed', reason }))).toEqual(['settled', 'retry']);
      expect(kinds(stepJoin(s, { type: 'retry-due' }))).toEqual(['leave']);
      expect(kinds(stepJoin(s, { type: 'left' }))).toEqual(['settled']);
    },
  );

  test('a leave unsubscribes first, and one that fails is told and not repeated by itself', () => {
    const { s, d } = play({ type: 'join' }, listed(), { type: 'subscribed' }, joined, {
      type: 'leave',
    });
    expect(d.at(-1)).toEqual(['unsubscribe', 'leave']);
    expect(kinds(stepJoin(s, { type: 'leave-failed', reason }))).toEqual(['settled']);
    expect(s.membership).toBe('held');
    expect(reportOf(s)).toMatchObject({ live: false, durable: false });
    expect(kinds(stepJoin(s, { type: 'leave' }))).toEqual(['leave']);
  });

  test('a leave while a join is out waits for its answer and then closes it', () => {
    const { s, d } = play({ type: 'join' }, listed(), { type: 'subscribed' }, { type: 'leave' });
    expect(d.at(-1)).toEqual([]);
    expect(kinds(stepJoin(s, joined))).toEqual(['unsubscribe', 'leave']);
  });

  test('a leave of a channel that this process never joined asks the daemon', () => {
    expect(play({ type: 'leave' }).d).toEqual([['leave']]);
  });

  test('the back-off doubles up to its bound, and what time does not heal is asked slowly', () => {
    expect(retryAfterMs(0, 'unavailable')).toBe(RETRY_FIRST_MS);
    expect(retryAfterMs(3, 'unavailable')).toBe(RETRY_FIRST_MS * 8);
    expect(retryAfterMs(50, 'unavailable')).toBe(RETRY_MAX_MS);
    expect(retryAfterMs(0, 'permission-denied')).toBe(RETRY_MAX_MS);
  });
});

/** Answers that fit what is out, so that a run is one that can happen. */
function answers(s: JoinState, pick: number): JoinEvent | undefined {
  const of: Record<string, JoinEvent[]> = {
    list: [listed('durable', 40 + pick), listed('live'), { type: 'list-failed', reason }],
    subscribe: [
      { type: 'subscribed' },
      { type: 'live-refused', reason },
      { type: 'subscribe-failed', reason },
    ],
    join: [joined, failed(), failed('unknown')],
    leave: [{ type: 'left' }, { type: 'leave-failed', reason }],
  };
  const list = s.asking === undefined ? undefined : of[s.asking];
  return list?.[pick % list.length];
}

test('whatever happens: one request at a time, no membership before the live subscription, no claim beyond what holds', () => {
  const weighted = <T>(...of: readonly (readonly [number, T])[]) =>
    fc.oneof(...of.map(([weight, x]) => ({ weight, arbitrary: fc.constant(x) })));
  const what = weighted([8, 'answer'], [2, 'join'], [1, 'leave'], [1, 'refuse'], [2, 'due']);
  const pick = weighted([4, 0], [1, 1], [1, 2]);
  const moves = fc.array(fc.record({ what, pick }), { maxLength: 60 });
  let durable = 0;
  fc.assert(
    fc.property(moves, (list) => {
      const s = initialJoin('team');
      let frontier: number | undefined;
      for (const { what, pick } of list) {
        let event: JoinEvent | undefined;
        if (what === 'answer') event = answers(s, pick);
        else if (what === 'join' || what === 'leave') event = { type: what };
        else if (what === 'refuse' && s.live === 'yes') event = { type: 'live-refused', reason };
        else if (what === 'due' && s.waiting) event = { type: 'retry-due' };
        if (event === undefined) continue;
        const out = s.asking;
        const d = stepJoin(s, event);
        const asks = d.filter((x) => ['list', 'subscribe', 'join', 'leave'].includes(x.kind));
        expect(asks.length).toBeLessThanOrEqual(1);
        if (asks.length === 1 && out !== undefined) expect(['answer', 'refuse']).toContain(what);
        for (const x of d) {
          if (x.kind === 'join') {
            expect(s.live).toBe('yes');
            expect(s.wanted).toBe(true);
            expect(x.joinCursor).toBe(s.frontier);
          }
          if (x.kind === 'retry') expect(x.afterMs).toBeLessThanOrEqual(RETRY_MAX_MS);
        }
        if (
          frontier !== undefined &&
          s.frontier !== undefined &&
          s.wanted &&
          event.type === 'listed'
        )
          expect(s.frontier).toBe(frontier);
        frontier = s.frontier;
        const r = reportOf(s);
        if (r.durable) {
          durable++;
          expect(s.live === 'yes' && s.membership === 'held').toBe(true);
        }
        if (!r.durable && r.live && r.class !== 'live') expect(r.text).toContain('unestablished');
        // Nothing out and nothing due: then the goal holds, or the failure was told.
        if (s.asking === undefined && !s.waiting && s.wanted && s.live !== 'refused')
          expect(r.durable || r.class === 'live').toBe(true);
      }
    }),
    { numRuns: 200 },
  );
  expect(durable).toBeGreaterThan(0);
});
