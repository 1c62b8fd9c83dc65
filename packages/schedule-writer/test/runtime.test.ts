import { OUTAGES_MAX, REFUSALS_KEPT } from '@plane3/schedule-writer';
import { describe, expect, it } from 'vitest';
import { body, request, subject, timer, waiting } from './support/facts.ts';
import { rig, settle } from './support/rig.ts';

const firesOf = (world: ReturnType<typeof rig>['world'], timerId: string): number[] =>
  world.fires.filter((f) => f.subject === subject(timerId, 'fire')).map((f) => f.generation);

describe('from request to fire', () => {
  it('fires at the deadline of the status, not before, once', async () => {
    const r = rig();
    const at = r.timers.wallMs() + 5_000;
    r.world.setStatus('flow', 't1', waiting(at));
    r.writer.start();
    r.world.request(request('t1'));
    await r.pass(4_990);
    expect(r.world.fires).toEqual([]);
    await r.pass(1_000);
    expect(r.world.fires).toEqual([{ subject: subject('t1', 'fire'), generation: 1, atMs: at }]);
    expect(r.world.outcomes()).toEqual(['done']);
    await r.writer.stop();
  });

  it('the same request twice, at once or later, arms once and fires once', async () => {
    const r = rig();
    r.world.setStatus('flow', 't1', waiting(r.timers.wallMs() + 5_000));
    r.writer.start();
    r.world.request(request('t1'));
    r.world.request(request('t1'));
    await r.pass(100);
    r.world.request(request('t1'));
    await r.pass(10_000);
    r.world.request(request('t1'));
    await r.pass(100);
    expect(firesOf(r.world, 't1')).toEqual([1]);
    expect(r.writer.status().counts).toMatchObject({ armed: 1, alreadyArmed: 2, alreadyFired: 1 });
  });

  it('an extended pause fires at its new time only; the late old request is discarded', async () => {
    const r = rig();
    r.world.setStatus('flow', 't1', waiting(r.timers.wallMs() + 2_000, 1));
    r.writer.start();
    r.world.request(request('t1', 1));
    await r.pass(100);
    r.world.setStatus('flow', 't1', waiting(r.timers.wallMs() + 6_000, 2));
    r.world.request(request('t1', 2));
    r.world.request(request('t1', 1));
    await r.pass(10_000);
    expect(firesOf(r.world, 't1')).toEqual([2]);
    expect(r.writer.status().counts.stale).toBe(1);
  });

  it('an answered pause does not expire', async () => {
    const r = rig();
    r.world.setStatus('flow', 't1', waiting(r.timers.wallMs() + 2_000));
    r.writer.start();
    r.world.request(request('t1'));
    await r.pass(100);
    r.world.setStatus('flow', 't1', { ...waiting(0), state: 'resumed' });
    r.world.request(request('t1'));
    await r.pass(5_000);
    expect(r.world.fires).toEqual([]);
    expect(r.writer.status().counts.settled).toBe(1);
  });

  it('overdue at start means now', async () => {
    const r = rig();
    r.world.setStatus('flow', 't1', waiting(r.timers.wallMs() - 60_000));
    r.world.request(request('t1'));
    r.writer.start();
    await r.pass(20);
    expect(firesOf(r.world, 't1')).toEqual([1]);
    expect(r.writer.status().counts.firedNow).toBe(1);
  });

  it('a step of the wall clock over the deadline does not skip a timer', async () => {
    const r = rig();
    r.world.setStatus('flow', 't1', waiting(r.timers.wallMs() + 60_000));
    r.timers.stepWall(3_600_000);
    r.world.request(request('t1'));
    r.writer.start();
    await r.pass(20);
    expect(firesOf(r.world, 't1')).toEqual([1]);
  });

  it('what was planted on the armed subject is replaced at the next request', async () => {
    const r = rig();
    r.world.setStatus('flow', 't1', waiting(r.timers.wallMs() + 2_000));
    r.world.plant(timer('t1'));
    r.world.request(request('t1'));
    r.writer.start();
    await r.pass(3_000);
    expect(firesOf(r.world, 't1')).toEqual([1]);
  });
});

describe('a bad request ends and the pump goes on', () => {
  it('is terminated with its reason, counted, kept for reading, and told once', async () => {
    const r = rig();
    r.world.setStatus('flow', 't9', waiting(r.timers.wallMs() + 1_000));
    r.writer.start();
    for (let i = 0; i < 100; i++)
      r.world.request(request('t1', 1, { headerNames: ['Nats-Schedule'] }));
    r.world.request(request('t1', 1, { body: body('t2') }));
    r.world.request(request('t9'));
    await r.pass(2_000);
    expect(firesOf(r.world, 't9')).toEqual([1]);
    expect(r.world.outcomes().slice(99)).toEqual([
      'terminated: schedule-header',
      'terminated: timer-id',
      'done',
    ]);
    const { counts, refusals } = r.writer.status();
    expect(counts.refused).toMatchObject({ 'schedule-header': 100, 'timer-id': 1, body: 0 });
    expect(refusals).toHaveLength(REFUSALS_KEPT);
    expect(r.events.filter((e) => e.event === 'timers.refused')).toHaveLength(2);
  });

  it('a request for no checkpoint is looked at again for a while, then refused', async () => {
    const r = rig();
    r.writer.start();
    r.world.request(request('t1'));
    r.world.request(request('t2'));
    await r.pass(500);
    r.world.setStatus('flow', 't2', waiting(r.timers.wallMs() + 1_000));
    await r.pass(20_000);
    expect(r.world.outcomes()).toEqual(['terminated: no-checkpoint', 'done']);
    expect(firesOf(r.world, 't2')).toEqual([1]);
  });

  it('a row that nobody can read holds up its own timer only', async () => {
    const r = rig({ concurrencyMax: 2 });
    for (let i = 0; i < 50; i++) {
      r.world.setStatus('flow', `p${i}`, 'unreadable');
      r.world.request(request(`p${i}`));
    }
    r.world.setStatus('flow', 't9', waiting(r.timers.wallMs() + 1_000));
    r.world.request(request('t9'));
    r.writer.start();
    await r.pass(3_000);
    expect(firesOf(r.world, 't9')).toEqual([1]);
    expect(r.writer.status().state).toBe('serving');
  });
});

describe('faults stay inside', () => {
  it.each(['unknown', 'answer-lost'] as const)(
    'arm answers %s: one schedule, one fire',
    async (kind) => {
      const r = rig();
      r.world.setStatus('flow', 't1', waiting(r.timers.wallMs() + 1_000));
      r.world.inject({ on: 'arm', times: 2, with: { kind } });
      r.writer.start();
      r.world.request(request('t1'));
      await r.pass(5_000);
      expect(firesOf(r.world, 't1')).toEqual([1]);
      expect(r.world.outcomes()).toEqual(['done']);
    },
  );

  it('dropped between arming and the answer: the next writer finds it armed', async () => {
    const r = rig();
    r.world.setStatus('flow', 't1', waiting(r.timers.wallMs() + 5_000));
    r.world.inject({ on: 'arm', times: 1, with: { kind: 'answer-lost' } });
    r.world.inject({ on: 'armed', times: 99, with: { kind: 'unknown' } });
    r.writer.start();
    r.world.request(request('t1'));
    await settle();
    await r.writer.stop();
    r.world.clearFaults();
    const next = r.make();
    next.start();
    await r.pass(10_000);
    expect(firesOf(r.world, 't1')).toEqual([1]);
    expect(next.status().counts).toMatchObject({ armed: 0, alreadyArmed: 1 });
  });

  it('a missing stream shows as unavailable with the reason and heals by itself', async () => {
    const r = rig();
    const missing = { kind: 'refused', reason: 'stream-missing' } as const;
    r.world.inject({ on: 'open', times: 3, with: missing });
    r.writer.start();
    await settle();
    const s = r.writer.status();
    expect(s).toMatchObject({ state: 'unavailable', why: 'stream-missing: planted' });
    expect(s.untilMs).toBeGreaterThan(r.timers.wallMs());
    await r.pass(5_000);
    expect(r.writer.status().state).toBe('serving');
    expect(r.events.map((e) => e.event)).toEqual(['timers.unavailable', 'timers.serving']);
  });

  it('a lost connection shows as backing off, and what was asked meanwhile is armed after', async () => {
    const r = rig();
    r.writer.start();
    await settle();
    r.world.inject({ on: 'pull', times: 3, with: { kind: 'unknown' } });
    await r.pass(5_100);
    expect(r.writer.status()).toMatchObject({ state: 'backing-off', why: 'pull: planted' });
    r.world.setStatus('flow', 't1', waiting(r.timers.wallMs() + 100));
    r.world.request(request('t1'));
    await r.pass(10_000);
    expect(firesOf(r.world, 't1')).toEqual([1]);
    expect(r.world.opens).toBeGreaterThan(1);
  });

  it('an outage of the vault ends in a back-off, not in a spin, and loses nothing', async () => {
    const r = rig();
    r.world.inject({ on: 'status', times: OUTAGES_MAX + 4, with: { kind: 'unknown' } });
    for (let i = 0; i < 20; i++) {
      r.world.setStatus('flow', `t${i}`, waiting(r.timers.wallMs() + 60_000));
      r.world.request(request(`t${i}`));
    }
    r.writer.start();
    await r.pass(30_000);
    expect(r.world.opens).toBeGreaterThan(1);
    expect(r.writer.status().state).toBe('serving');
    await r.pass(40_000);
    expect(r.world.fires).toHaveLength(20);
  });

  it.each(['open', 'pull', 'status', 'armed', 'arm', 'lastFire'] as const)(
    'a port that throws in %s never reaches the host',
    async (on) => {
      const r = rig();
      r.world.inject({ on, times: 5, with: { kind: 'throw' } });
      r.world.setStatus('flow', 't1', waiting(r.timers.wallMs() + 1_000));
      r.writer.start();
      r.world.request(request('t1'));
      r.world.request(request('t1'));
      await r.pass(30_000);
      expect(firesOf(r.world, 't1')).toEqual([1]);
      await r.writer.stop();
    },
  );

  it('a log that throws changes nothing', async () => {
    const r = rig();
    r.events.push = () => {
      throw new Error('disk full');
    };
    r.writer.start();
    await r.pass(50);
    expect(r.writer.status().state).toBe('serving');
    await r.writer.stop();
  });
});

describe('start and stop', () => {
  it('are idempotent, in any order, at any moment', async () => {
    const r = rig();
    await r.writer.stop();
    r.writer.start();
    r.writer.start();
    await r.writer.stop();
    await r.writer.stop();
    expect(r.writer.status().state).toBe('stopped');
    r.writer.start();
    await settle();
    expect(r.writer.status().state).toBe('serving');
    await r.writer.stop();
    expect(r.world.openNow).toBe(0);
  });

  it('stop is bounded by its grace', async () => {
    const r = rig();
    r.world.setStatus('flow', 't1', waiting(r.timers.wallMs() + 60_000));
    r.world.inject({ on: 'arm', times: 1, with: { kind: 'hang' } });
    r.writer.start();
    r.world.request(request('t1'));
    await settle();
    let stopped = false;
    const stopping = r.writer.stop().then(() => {
      stopped = true;
    });
    await settle();
    expect(stopped).toBe(false);
    await r.pass(1_100);
    await stopping;
  });
});
