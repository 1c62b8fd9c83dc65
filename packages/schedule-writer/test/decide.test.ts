import {
  type ArmedSeen,
  type CheckpointSeen,
  DECIDE_LIMITS,
  type DecideInput,
  type Decision,
  decide,
  type JudgedRequest,
  judge,
} from '@plane3/schedule-writer';
import { describe, expect, it } from 'vitest';
import { body, PREFIX, request, timer, waiting } from './support/facts.ts';

const NOW = 1_800_000_000_000;
const HOUR = 3_600_000;

const judged = (generation: number, deadline = 1): JudgedRequest => {
  const j = judge(
    PREFIX,
    request('t1', generation, { body: body('t1', generation, { deadline }) }),
  );
  if (j.kind === 'refuse') return expect.fail(j.reason);
  return j;
};

const status = (s: ReturnType<typeof waiting>): CheckpointSeen => ({ kind: 'status', status: s });
const scheduled = (generation: number, deadlineMs: number, seq = 9): ArmedSeen => ({
  kind: 'schedule',
  seq,
  armed: { generation, deadlineMs },
});

const input = (o: Partial<DecideInput> = {}): DecideInput => ({
  judged: judged(2),
  checkpoint: status(waiting(NOW + HOUR, 2)),
  armed: { kind: 'nothing' },
  fired: { kind: 'none' },
  deliveries: 1,
  nowMs: NOW,
  limits: DECIDE_LIMITS,
  ...o,
});
const say = (o: Partial<DecideInput> = {}): Decision => decide(input(o));

describe('target and time come from the subject and the authoritative status', () => {
  it('arms at the deadline of the status, with a body that is whole by itself', () => {
    expect(say({ judged: judged(2, NOW + 5) })).toEqual({
      kind: 'arm',
      order: {
        timer: timer('t1'),
        atMs: NOW + HOUR,
        expectedSeq: 0,
        body: { v: 1, timerId: 't1', generation: 2, deadline: NOW + HOUR },
      },
    });
  });

  it('an overdue one fires now, with its own deadline in the body', () => {
    expect(say({ checkpoint: status(waiting(NOW - HOUR, 2)) })).toMatchObject({
      kind: 'fire-now',
      order: { atMs: NOW - HOUR, body: { deadline: NOW - HOUR } },
    });
  });

  it('refuses a deadline beyond the limit, wherever the request puts it', () => {
    const beyond = NOW + DECIDE_LIMITS.deadlineLimitMs + 1;
    for (const d of [beyond, Number.MAX_SAFE_INTEGER, 1.5, Number.NaN, -1])
      expect(say({ checkpoint: status(waiting(d, 2)) })).toMatchObject({
        kind: 'refuse',
        reason: 'deadline-beyond-limit',
      });
    expect(say({ checkpoint: status(waiting(beyond - 1, 2)) }).kind).toBe('arm');
  });
});

describe('one timer, one schedule', () => {
  it('the same generation again is nothing to do', () => {
    expect(say({ armed: scheduled(2, NOW + HOUR) }).kind).toBe('already-armed');
  });

  it('replaces an earlier generation, and the same one with another time, where it stands', () => {
    for (const armed of [scheduled(1, NOW + HOUR), scheduled(2, NOW + 1)])
      expect(say({ armed })).toMatchObject({ kind: 'arm', order: { expectedSeq: 9 } });
  });

  it('replaces what was planted on the armed subject', () => {
    expect(say({ armed: { kind: 'planted', seq: 7 } })).toMatchObject({
      kind: 'arm',
      order: { expectedSeq: 7 },
    });
  });

  it('discards a lower generation than the checkpoint’s, or than the armed one', () => {
    expect(say({ judged: judged(1) }).kind).toBe('stale');
    expect(say({ armed: scheduled(3, NOW + HOUR) }).kind).toBe('stale');
  });

  it('does not fire a generation twice', () => {
    const due = { checkpoint: status(waiting(NOW - 1, 2)) };
    expect(say({ ...due, fired: { kind: 'fired', generation: 2 } }).kind).toBe('already-fired');
    expect(say({ ...due, fired: { kind: 'fired', generation: 3 } }).kind).toBe('already-fired');
    expect(say({ ...due, fired: { kind: 'fired', generation: 1 } }).kind).toBe('fire-now');
  });
});

describe('a settled checkpoint never fires', () => {
  it.each(['resumed', 'expired'] as const)('%s: nothing is armed, what is goes away', (state) => {
    const checkpoint = status({ ...waiting(NOW + HOUR, 2), state });
    expect(say({ checkpoint })).toEqual({ kind: 'settled', disarmSeq: 0 });
    expect(say({ checkpoint, armed: scheduled(2, NOW + HOUR) })).toEqual({
      kind: 'settled',
      disarmSeq: 9,
    });
  });
});

describe('cannot tell is neither armed nor dropped', () => {
  it.each<[string, Partial<DecideInput>, string]>([
    ['an unanswered checkpoint', { checkpoint: { kind: 'unknown', cause: 'x' } }, 'outage'],
    ['a checkpoint nobody can read', { checkpoint: { kind: 'unreadable' } }, 'request'],
    ['an unanswered armed subject', { armed: { kind: 'unknown', cause: 'x' } }, 'outage'],
    [
      'an unanswered fire of a due one',
      { fired: { kind: 'unknown', cause: 'x' }, checkpoint: status(waiting(NOW, 2)) },
      'outage',
    ],
  ])('%s is retried for ever', (_, o, blame) => {
    for (const deliveries of [1, 1_000])
      expect(say({ ...o, deliveries })).toMatchObject({ kind: 'retry', blame });
  });

  it.each<[string, Partial<DecideInput>, string]>([
    ['absent', { checkpoint: { kind: 'absent' } }, 'no-checkpoint'],
    ['behind the request', { judged: judged(3) }, 'generation-ahead'],
  ])('a checkpoint that is %s gets some patience, then the request is refused', (_, o, reason) => {
    const { patienceDeliveries } = DECIDE_LIMITS;
    expect(say({ ...o, deliveries: patienceDeliveries - 1 })).toMatchObject({ kind: 'retry' });
    expect(say({ ...o, deliveries: patienceDeliveries })).toMatchObject({ kind: 'refuse', reason });
  });
});
