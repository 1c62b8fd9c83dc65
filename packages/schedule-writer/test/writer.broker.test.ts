import { Publisher } from '@plane3/link';
import { DECIDE_LIMITS, decide, judge, type ScheduleWriter } from '@plane3/schedule-writer';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  sessionsOf,
  startSpace,
  type TestSpace,
  writerGrants,
  writerOn,
} from './support/broker.ts';
import { body, subject, waiting } from './support/facts.ts';

let space: TestSpace;
let writers: ScheduleWriter[];
beforeEach(async () => {
  space = await startSpace();
  writers = [];
});
afterEach(async () => {
  for (const w of writers) await w.stop();
  await space.stop();
});

function start(...o: Parameters<typeof writerOn> extends [unknown, ...infer R] ? R : never) {
  const w = writerOn(space, ...o);
  writers.push(w);
  w.start();
  return w;
}

const ask = async (timerId: string, generation = 1, b = body(timerId, generation)) => {
  await space.agent.nc.request(subject(timerId), b, { timeout: 5_000 });
};
const serving = (w: ScheduleWriter) =>
  expect.poll(() => w.status().state, { timeout: 10_000 }).toBe('serving');
const firesOf = async (timerId: string) =>
  (await space.fires()).filter((f) => f.subject === subject(timerId, 'fire'));

describe('from request to fire', () => {
  it('a request fires at the time of its checkpoint, self-contained, from the broker', async () => {
    await space.makeStreams();
    const w = start();
    const deadline = Date.now() + 700;
    await space.setStatus('t1', waiting(deadline, 3));
    await ask('t1', 3, body('t1', 3, { deadline: 5 }));
    await expect.poll(() => firesOf('t1'), { timeout: 10_000 }).toHaveLength(1);
    const [fire] = await firesOf('t1');
    expect(fire?.body).toEqual({ v: 1, timerId: 't1', generation: 3, deadline });
    expect(fire?.headers).toContain(`Nats-Scheduler: ${subject('t1', 'armed')}`);
    expect(fire?.atMs).toBeGreaterThanOrEqual(deadline);
    expect(w.status().counts).toMatchObject({ received: 1, armed: 1 });
  });

  it('the same request twice arms once; after the fire it does not fire again', async () => {
    await space.makeStreams();
    const w = start();
    await space.setStatus('t1', waiting(Date.now() + 800));
    await Promise.all([ask('t1'), ask('t1')]);
    await expect.poll(() => firesOf('t1'), { timeout: 10_000 }).toHaveLength(1);
    await ask('t1');
    await expect.poll(() => w.status().counts.alreadyFired, { timeout: 10_000 }).toBe(1);
    expect(w.status().counts).toMatchObject({ armed: 1, alreadyArmed: 1 });
    expect(await firesOf('t1')).toHaveLength(1);
  });

  it('a lower generation is discarded and the extended time holds', async () => {
    await space.makeStreams();
    const w = start();
    await space.setStatus('t1', waiting(Date.now() + 60_000, 1));
    await ask('t1', 1);
    await expect.poll(() => w.status().counts.armed, { timeout: 10_000 }).toBe(1);
    await space.setStatus('t1', waiting(Date.now() + 500, 2));
    await ask('t1', 2);
    await ask('t1', 1);
    await expect.poll(() => firesOf('t1'), { timeout: 10_000 }).toHaveLength(1);
    expect((await firesOf('t1'))[0]?.body).toMatchObject({ generation: 2 });
    expect(w.status().counts).toMatchObject({ armed: 2, stale: 1 });
  });

  it('a settled checkpoint is not armed, and what was armed for it goes away', async () => {
    await space.makeStreams();
    const w = start();
    await space.setStatus('t1', { ...waiting(Date.now() + 300), state: 'expired' });
    await ask('t1');
    await space.setStatus('t2', waiting(Date.now() + 60_000));
    await ask('t2');
    await expect
      .poll(() => w.status().counts, { timeout: 10_000 })
      .toMatchObject({
        settled: 1,
        armed: 1,
      });
    await space.setStatus('t2', { ...waiting(Date.now() + 60_000), state: 'resumed' });
    await ask('t2');
    await expect.poll(() => w.status().counts.settled, { timeout: 10_000 }).toBe(2);
    const info = await space.api('s', `STREAM.INFO.${space.names.streams.timers}`);
    expect(info['state']).toMatchObject({ messages: 0 });
  });

  it('what was due while nobody was there fires at once', async () => {
    await space.makeStreams();
    await space.setStatus('t1', waiting(Date.now() - 3_600_000));
    await ask('t1');
    const w = start();
    await expect.poll(() => firesOf('t1'), { timeout: 10_000 }).toHaveLength(1);
    expect(w.status().counts.firedNow).toBe(1);
  });
});

describe('what agents may try', () => {
  it('bad bodies, ids, headers and forged broker answers are terminated; the next one fires', async () => {
    await space.makeStreams();
    const w = start();
    await serving(w);
    await ask('t1', 1, new TextEncoder().encode('{'));
    await ask('t1', 1, body('t2'));
    const { nc } = space.agent;
    const publisher = new Publisher(space.agent);
    const rollup = [['Nats-Schedule-Rollup', 'sub']] as const;
    expect((await publisher.publish(subject('t1'), body('t1'), rollup)).kind).toBe('done');
    publisher.close();
    // The broker’s own acknowledgement of another publish, stored as a timer request.
    nc.publish(subject('t1'), body('t1'), { reply: subject('t1', 'schedule') });
    await space.setStatus('t9', waiting(Date.now() + 300));
    await ask('t9');
    await expect.poll(() => firesOf('t9'), { timeout: 10_000 }).toHaveLength(1);
    await expect
      .poll(() => w.status().counts.refused, { timeout: 10_000 })
      .toMatchObject({ body: 2, 'timer-id': 1, 'schedule-header': 1 });
    expect(await firesOf('t1')).toEqual([]);
    const durable = `CONSUMER.INFO.${space.names.streams.timerRequests}.${space.names.durables.timers}`;
    // The valid request without a checkpoint is still being looked at; the bad ones are gone.
    await expect
      .poll(async () => (await space.api('s', durable))['num_ack_pending'], { timeout: 10_000 })
      .toBeLessThanOrEqual(1);
  });

  it('a message planted on an armed subject is replaced when the timer is asked for again', async () => {
    await space.makeStreams();
    const w = start();
    await space.setStatus('t1', waiting(Date.now() + 1_500));
    await ask('t1');
    await expect.poll(() => w.status().counts.armed, { timeout: 10_000 }).toBe(1);
    await space.agent.nc.request(subject('t1', 'armed'), 'planted', { timeout: 5_000 });
    await ask('t1');
    await expect.poll(() => firesOf('t1'), { timeout: 10_000 }).toHaveLength(1);
  });
});

describe('rights', () => {
  it('needs nothing beside its grants: the broker refuses none of what it does', async () => {
    await space.makeStreams();
    const w = start();
    await space.setStatus('t1', waiting(Date.now() + 300));
    await ask('t1');
    await expect.poll(() => firesOf('t1'), { timeout: 10_000 }).toHaveLength(1);
    await space.setStatus('t1', { ...waiting(0), state: 'expired' });
    await ask('t1');
    await expect.poll(() => w.status().counts.settled, { timeout: 10_000 }).toBe(1);
    expect(space.nats.violations()).toEqual([]);
  });

  it.each(['$JS.API.STREAM.INFO.EPT_main', '$JS.API.CONSUMER.MSG.NEXT', '.armed'])(
    'without the right on %s it is unavailable and says which right',
    async (missing) => {
      await space.stop();
      const all = writerGrants(space.names);
      space = await startSpace({ ...all, space: all.space.filter((g) => !g.includes(missing)) });
      await space.makeStreams();
      await space.setStatus('t1', waiting(Date.now() + 60_000));
      await ask('t1');
      const w = start();
      await expect.poll(() => w.status().state, { timeout: 10_000 }).toBe('unavailable');
      expect(w.status().why).toContain('permission-denied');
      expect(w.status().why).toContain(missing);
    },
  );
});

describe('faults', () => {
  it('dropped between arming and the acknowledgement: armed once', async () => {
    await space.makeStreams();
    await space.setStatus('t1', waiting(Date.now() + 2_500));
    await ask('t1');
    // The first life arms and never answers, as if it had been killed there.
    const opened = await sessionsOf(space).open();
    if (opened.kind !== 'done') return expect.fail(JSON.stringify(opened));
    const session = opened.value;
    await session.requests.pull(1, 5_000, () => {});
    const judged = judge(space.names.prefix, {
      subject: subject('t1'),
      headerNames: [],
      body: body('t1'),
    });
    if (judged.kind !== 'request') return expect.fail(judged.reason);
    const decision = decide({
      judged,
      checkpoint: await session.checkpoints.status('flow', 't1'),
      armed: await session.schedules.armed(judged.timer),
      fired: { kind: 'none' },
      deliveries: 1,
      nowMs: Date.now(),
      limits: DECIDE_LIMITS,
    });
    if (decision.kind !== 'arm') return expect.fail(decision.kind);
    expect((await session.schedules.arm(decision.order)).kind).toBe('done');
    await session.close();

    const next = start();
    await expect.poll(() => next.status().counts.alreadyArmed, { timeout: 10_000 }).toBe(1);
    await expect.poll(() => firesOf('t1'), { timeout: 10_000 }).toHaveLength(1);
    expect(next.status().counts.armed).toBe(0);
  });

  it('a missing stream shows as unavailable, is retried, and heals without the host', async () => {
    const w = start();
    await expect
      .poll(() => w.status(), { timeout: 10_000 })
      .toMatchObject({ state: 'unavailable', why: 'stream-missing: EPT_REQ_main' });
    await space.makeStreams();
    await serving(w);
    await space.setStatus('t1', waiting(Date.now() + 300));
    await ask('t1');
    await expect.poll(() => firesOf('t1'), { timeout: 10_000 }).toHaveLength(1);
  });

  it.each([
    [
      'schedules off',
      { allow_msg_schedules: false, allow_rollup_hdrs: false },
      'schedules are off',
    ],
    ['no armed subject', { subjects: ['cotal.main.ept.*.*.*.*.fire'] }, 'does not take'],
  ])('a timer stream with %s is named', async (_, timers, why) => {
    await space.makeStreams({ timers });
    const w = start();
    await expect.poll(() => w.status().state, { timeout: 10_000 }).toBe('unavailable');
    expect(w.status().why).toContain('stream-mismatch: EPT_main');
    expect(w.status().why).toContain(why);
  });

  it('a durable deleted under it is made again', async () => {
    await space.makeStreams();
    const w = start();
    await serving(w);
    const { streams, durables } = space.names;
    await space.api('s', `CONSUMER.DELETE.${streams.timerRequests}.${durables.timers}`);
    await space.setStatus('t1', waiting(Date.now() + 2_000));
    await ask('t1');
    await expect.poll(() => firesOf('t1'), { timeout: 15_000 }).toHaveLength(1);
  });

  it('a broker that was killed: all that was armed or asked fires, each once', async () => {
    await space.makeStreams();
    const w = start();
    await serving(w);
    const ids = Array.from({ length: 20 }, (_, i) => `t${i}`);
    for (const id of ids) await space.setStatus(id, waiting(Date.now() + 3_000));
    for (const id of ids.slice(0, 10)) await ask(id);
    await expect.poll(() => w.status().counts.armed, { timeout: 10_000 }).toBe(10);
    await space.nats.restart();
    await expect.poll(() => space.agent.connected, { timeout: 10_000 }).toBe(true);
    for (const id of ids.slice(10))
      await expect
        .poll(
          () =>
            ask(id).then(
              () => true,
              () => false,
            ),
          { timeout: 10_000 },
        )
        .toBe(true);
    await expect.poll(async () => (await space.fires()).length, { timeout: 20_000 }).toBe(20);
    await serving(w);
    expect(new Set((await space.fires()).map((f) => f.subject)).size).toBe(20);
  });
});
