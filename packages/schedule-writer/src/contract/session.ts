import assert from 'node:assert/strict';
import type { CheckpointStatus, TimerSubject } from '@plane3/protocol';
import type { ArmOrder, FiredSeen, RequestFacts } from '../model.ts';
import type { Delivery, Session } from '../ports.ts';

/** What a host must bring to run the cases against its adapter; one fresh world per case. */
export interface ContractAdapter {
  readonly session: Session;
  /** `cotal.<space token>`. */
  readonly prefix: string;
  /** Now, as the adapter's broker sees it. */
  wallMs(): number;
  request(facts: Pick<RequestFacts, 'subject' | 'body'>): Promise<void>;
  setStatus(endpoint: string, timerId: string, s: CheckpointStatus | 'unreadable'): Promise<void>;
  /** A message without schedule headers on the armed subject. */
  plant(timer: TimerSubject): Promise<void>;
  /** Lets time pass: at least so much on the adapter's broker. */
  pass(ms: number): Promise<void>;
  close(): Promise<void>;
}

export interface ContractCase {
  readonly name: string;
  run(makeAdapter: () => Promise<ContractAdapter>): Promise<void>;
}

const IID = 'a'.repeat(26);
const HOUR_MS = 3_600_000;
const POLL_MS = 50;
/** A fire that did not come within so many looks does not come. */
const POLLS_MAX = 200;

const timer = (timerId: string): TimerSubject => ({
  endpoint: 'flow',
  instanceId: IID,
  epoch: '1',
  timerId,
  verb: 'schedule',
});

const subjectOf = (a: ContractAdapter, timerId: string): string =>
  `${a.prefix}.ept.flow.${IID}.1.${timerId}.schedule`;

const order = (timerId: string, generation: number, atMs: number, expectedSeq = 0): ArmOrder => ({
  timer: timer(timerId),
  atMs,
  expectedSeq,
  body: { v: 1, timerId, generation, deadline: atMs },
});

async function armed(a: ContractAdapter, o: ArmOrder): Promise<number> {
  const stored = await a.session.schedules.arm(o);
  if (stored.kind !== 'done') assert.fail(`not armed: ${JSON.stringify(stored)}`);
  return stored.value;
}

/** Passes time until the timer has fired, and answers what of it is stored. */
async function fired(a: ContractAdapter, timerId: string): Promise<FiredSeen> {
  for (let i = 0; i < POLLS_MAX; i++) {
    const seen = await a.session.schedules.lastFire(timer(timerId));
    if (seen.kind !== 'none') return seen;
    await a.pass(POLL_MS);
  }
  return assert.fail(`${timerId} did not fire`);
}

async function pulled(a: ContractAdapter, count: number, waitMs: number): Promise<Delivery[]> {
  const got: Delivery[] = [];
  const answer = a.session.requests.pull(count, waitMs, (d) => got.push(d));
  let ended = false;
  const end = answer.then((o) => {
    ended = true;
    return o;
  });
  for (let i = 0; i < POLLS_MAX && !ended; i++) await a.pass(POLL_MS);
  const o = await end;
  assert.equal(o.kind, 'done');
  assert.equal(o.kind === 'done' ? o.value : -1, got.length);
  return got;
}

const test = (name: string, f: (a: ContractAdapter) => Promise<void>): ContractCase => ({
  name,
  run: async (makeAdapter) => {
    const a = await makeAdapter();
    try {
      await f(a);
    } finally {
      await a.close();
    }
  },
});

const text = new TextEncoder();

export const SESSION_CONTRACT: readonly ContractCase[] = [
  test('an armed schedule reads back with what it was armed with', async (a) => {
    const atMs = a.wallMs() + HOUR_MS;
    assert.deepEqual(await a.session.schedules.armed(timer('t1')), { kind: 'nothing' });
    const seq = await armed(a, order('t1', 2, atMs));
    assert.deepEqual(await a.session.schedules.armed(timer('t1')), {
      kind: 'schedule',
      seq,
      armed: { generation: 2, deadlineMs: atMs },
    });
  }),

  test('of two that expect the same sequence one is armed', async (a) => {
    const atMs = a.wallMs() + HOUR_MS;
    const both = await Promise.all([
      a.session.schedules.arm(order('t1', 1, atMs)),
      a.session.schedules.arm(order('t1', 1, atMs)),
    ]);
    assert.deepEqual(both.map((o) => o.kind).sort(), ['done', 'refused']);
    const lost = both.find((o) => o.kind === 'refused');
    assert.equal(lost?.kind === 'refused' ? lost.reason : '', 'wrong-sequence');
  }),

  test('a later generation replaces an earlier one and only it fires', async (a) => {
    const first = await armed(a, order('t1', 1, a.wallMs() + HOUR_MS));
    await armed(a, order('t1', 2, a.wallMs() + 100, first));
    assert.deepEqual(await fired(a, 't1'), { kind: 'fired', generation: 2 });
  }),

  test('fires once at its time and leaves nothing armed', async (a) => {
    assert.deepEqual(await a.session.schedules.lastFire(timer('t1')), { kind: 'none' });
    await armed(a, order('t1', 3, a.wallMs() + 100));
    assert.deepEqual(await fired(a, 't1'), { kind: 'fired', generation: 3 });
    for (let i = 0; i < POLLS_MAX; i++) {
      if ((await a.session.schedules.armed(timer('t1'))).kind === 'nothing') return;
      await a.pass(POLL_MS);
    }
    assert.fail('still armed after its fire');
  }),

  test('a time in the past fires at once', async (a) => {
    await armed(a, order('t1', 1, a.wallMs() - HOUR_MS));
    assert.deepEqual(await fired(a, 't1'), { kind: 'fired', generation: 1 });
  }),

  test('a message planted on the armed subject is seen as what it is and can be replaced', async (a) => {
    await armed(a, order('t1', 1, a.wallMs() + HOUR_MS));
    await a.plant(timer('t1'));
    const seen = await a.session.schedules.armed(timer('t1'));
    if (seen.kind !== 'planted') assert.fail(seen.kind);
    await armed(a, order('t1', 1, a.wallMs() + HOUR_MS, seen.seq));
    assert.equal((await a.session.schedules.armed(timer('t1'))).kind, 'schedule');
  }),

  test('disarming takes what was seen and not what came after', async (a) => {
    const first = await armed(a, order('t1', 1, a.wallMs() + HOUR_MS));
    const second = await armed(a, order('t1', 2, a.wallMs() + HOUR_MS, first));
    await a.session.schedules.disarm(timer('t1'), first);
    assert.equal((await a.session.schedules.armed(timer('t1'))).kind, 'schedule');
    await a.session.schedules.disarm(timer('t1'), second);
    assert.deepEqual(await a.session.schedules.armed(timer('t1')), { kind: 'nothing' });
  }),

  test('a status is absent, unreadable or what was written last', async (a) => {
    const read = () => a.session.checkpoints.status('flow', 't1');
    assert.deepEqual(await read(), { kind: 'absent' });
    await a.setStatus('flow', 't1', 'unreadable');
    assert.deepEqual(await read(), { kind: 'unreadable' });
    const status = { state: 'waiting' as const, deadlineGeneration: 4, deadline: 5 };
    await a.setStatus('flow', 't1', status);
    assert.deepEqual(await read(), { kind: 'status', status });
  }),

  test('requests come with subject and body, in their number, and end when answered', async (a) => {
    for (const id of ['t1', 't2', 't3'])
      await a.request({ subject: subjectOf(a, id), body: text.encode(id) });
    const first = await pulled(a, 2, 1_000);
    assert.equal(first.length, 2);
    for (const d of first) {
      assert.equal(d.deliveries, 1);
      assert.equal(d.facts.subject.split('.').at(-2), new TextDecoder().decode(d.facts.body));
    }
    first[0]?.done();
    first[1]?.terminate('test');
    const rest = await pulled(a, 1, 1_000);
    assert.equal(rest.length, 1);
    rest[0]?.done();
    assert.equal((await pulled(a, 1, 300)).length, 0);
  }),

  test('a request that is put back, or not answered, comes again and says how often', async (a) => {
    await a.request({ subject: subjectOf(a, 't1'), body: text.encode('x') });
    (await pulled(a, 1, 1_000))[0]?.retry(50);
    const second = (await pulled(a, 1, 2_000))[0];
    assert.equal(second?.deliveries, 2);
    const third = (await pulled(a, 1, 5_000))[0];
    assert.equal(third?.deliveries, 3);
    third?.done();
  }),

  test('a pull that is open when the session closes ends', async (a) => {
    const open = a.session.requests.pull(1, 60_000, () => {});
    await a.session.close();
    assert.equal((await open).kind, 'unknown');
  }),
];
