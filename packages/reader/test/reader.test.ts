import { type AckPayload, LOOP_BACKS } from '@plane3/reader';
import { beforeEach, expect, test } from 'vitest';
import { INCARNATION, memberKey, World } from './world.ts';

const ACK_WAIT_MS = 60_000;
let w: World;
let bob: string;
beforeEach(async () => {
  w = new World({ windowEntries: 4, pageEntries: 8 });
  bob = w.member('bob');
  await w.boot();
});
const pending = async (member: string) => {
  const o = w.reader.pendingOf(member);
  await w.time.settle();
  const a = await o;
  if (a.kind !== 'done') throw new Error(a.kind);
  return a.value;
};
const answer = async <T>(p: Promise<T>): Promise<T> => {
  await w.time.settle();
  return p;
};
const ids = (member: string) => w.handOver.of(member).map((c) => c.entryId);
const counters = () => w.reader.status().counters;

test('the entries of an absent member stay in the store, and nothing lies within reach', async () => {
  for (let i = 0; i < 10; i++) w.post(bob);
  await w.time.advance(10_000);
  expect(w.handOver.history).toEqual([]);
  expect(w.store.of(bob)).toHaveLength(10);
  expect(await pending(bob)).toMatchObject({ pending: 10, handedOver: 0, oldestAgeMs: 10_000 });
  expect(w.reader.status()).toMatchObject({ attached: 0, lingering: 0 });
});

test('an attached member gets its backlog in order, at most a window at a time, and each leaves by its confirm', async () => {
  const posts = Array.from({ length: 30 }, () => w.post(bob).entryId);
  await w.attach(bob);
  expect(ids(bob)).toEqual(posts.slice(0, 4));
  expect(await pending(bob)).toMatchObject({ pending: 30, handedOver: 4 });
  expect(await w.confirmAll(bob)).toEqual(posts);
  expect(w.store.of(bob)).toEqual([]);
  await w.time.advance(1_000);
  expect(w.handOver.copies.size).toBe(0);
  expect(counters()).toMatchObject({ handedOver: 30, redelivered: 0, confirmed: 30 });
});

test('a copy that was just stored is handed over from memory, without a read', async () => {
  await w.attach(bob);
  const reads = w.store.reads;
  const e = w.post(bob);
  await w.time.settle();
  expect(ids(bob)).toEqual([e.entryId]);
  expect(w.store.reads).toBe(reads);
});

test('an entry larger than the window is handed over alone', async () => {
  w = new World({ windowBytes: 100 });
  bob = w.member('bob');
  await w.boot();
  const big = w.put(bob, { bytes: 500 });
  const small = w.put(bob);
  await w.attach(bob);
  expect(ids(bob)).toEqual([big.entryId]);
  expect(await w.confirmAll(bob)).toEqual([big.entryId, small.entryId]);
});

test.each<[string, Partial<{ payload: AckPayload; storedNs: string }>, string | undefined]>([
  ['another stored time', { storedNs: '1' }, 'another-copy'],
  ['a busy answer', { payload: 'nak' }, undefined],
  ['a progress answer', { payload: 'progress' }, undefined],
  ['any other body', { payload: 'other' }, 'foreign'],
])('%s confirms nothing', async (_title, o, why) => {
  await w.attach(bob);
  w.post(bob);
  await w.time.settle();
  const [copy] = w.handOver.of(bob);
  if (copy === undefined) throw new Error('no copy');
  w.handOver.ack(copy, o);
  await w.time.advance(2_000);
  expect(w.store.of(bob)).toHaveLength(1);
  if (why !== undefined) expect(counters().acksIgnored).toMatchObject({ [why]: 1 });
});

test('an ack with headers, of another durable or of an unknown sequence confirms nothing', async () => {
  const eve = w.member('eve');
  await w.attach(bob);
  await w.attach(eve);
  w.post(bob);
  await w.time.settle();
  const [copy] = w.handOver.of(bob);
  if (copy === undefined) throw new Error('no copy');
  const said = {
    seq: copy.copySeq,
    storedNs: copy.storedNs,
    payload: 'ack',
    hasHeaders: false,
  } as const;
  const durableOf = (m: string) => `dlv_${m.replaceAll('.', '-')}`;
  w.handOver.say({ ...said, durable: durableOf(bob), hasHeaders: true });
  w.handOver.say({ ...said, durable: durableOf(eve) });
  w.handOver.say({ ...said, durable: durableOf(bob), seq: 99 });
  w.handOver.say({ ...said, durable: 'svc_role' });
  await w.time.advance(2_000);
  expect(w.store.of(bob)).toHaveLength(1);
  expect(counters().confirmed).toBe(0);
  expect(counters().acksIgnored).toMatchObject({ foreign: 2, 'unknown-copy': 2 });
});

test('a member that refuses an entry does not get it again in this attachment, and the next flows', async () => {
  await w.attach(bob);
  const bad = w.post(bob);
  await w.time.settle();
  for (const c of w.handOver.of(bob)) w.handOver.ack(c, { payload: 'term' });
  const good = w.post(bob);
  await w.time.advance(ACK_WAIT_MS);
  expect(ids(bob)).toEqual([good.entryId]);
  expect(await pending(bob)).toMatchObject({ pending: 1, withheld: { refused: 1 } });
  expect(w.store.entries.has(bad.storeSeq)).toBe(true);
  expect(counters().refusedByMember).toBe(1);
});

test('a leave takes the copies back, disposes of the generation only, and leaves other channels alone', async () => {
  w.member('bob', ['general', 'other']);
  await w.attach(bob);
  const first = w.post(bob);
  const other = w.post(bob, { channel: 'other' });
  await w.time.settle();
  const interval = { incarnation: INCARNATION, joinCursor: 0 };
  w.memberships.set(bob, 'general', 1, { kind: 'closed', leaveCursor: 50, ...interval });
  for (let i = 0; i < 20; i++) w.post(bob);
  w.memberships.set(bob, 'general', 2, { kind: 'open', ...interval, joinCursor: 60 });
  const rejoined = w.post(bob, { generation: 2, seq: 61 });
  const o = await answer(
    w.reader.dispose({ member: bob, channel: 'general', generation: 1, reason: 'left' }),
  );
  expect(o.kind).toBe('done');
  expect(w.store.of(bob).map((e) => e.entryId)).toEqual([other.entryId, rejoined.entryId]);
  await w.time.advance(1_000);
  expect(ids(bob).sort()).toEqual([other.entryId, rejoined.entryId].sort());
  expect(counters().disposed['left']).toBe(21);
  expect(ids(bob)).not.toContain(first.entryId);
  expect(w.handOver.history.filter((c) => c.entryId === other.entryId)).toHaveLength(1);
});

test('a confirm that races a leave counts once, as a confirm, whichever copy it names', async () => {
  await w.attach(bob);
  w.post(bob);
  await w.time.settle();
  const [copy] = w.handOver.of(bob);
  if (copy === undefined) throw new Error('no copy');
  const retracted = w.reader.retract(bob);
  await w.time.settle();
  expect(await retracted).toEqual({ kind: 'done', value: 1 });
  w.handOver.ack(copy);
  await w.time.advance(1_000);
  expect(w.store.of(bob)).toEqual([]);
  expect(counters()).toMatchObject({ confirmed: 1, pulledBefore: 1 });
  expect(w.handOver.copies.size).toBe(0);
});

test('an absent member whose copies were taken back confirms late, and it counts', async () => {
  await w.attach(bob, 1_000);
  w.post(bob);
  await w.time.settle();
  const [copy] = w.handOver.of(bob);
  if (copy === undefined) throw new Error('no copy');
  await w.time.advance(3_000 + ACK_WAIT_MS);
  expect(w.reader.status()).toMatchObject({ attached: 0, lingering: 0, handedOver: 0 });
  expect(w.handOver.copies.size).toBe(0);
  expect(w.store.of(bob)).toHaveLength(1);
  w.handOver.ack(copy);
  await w.time.settle();
  expect(w.store.of(bob)).toEqual([]);
});

test('a flapping presence repeats nothing within the grace', async () => {
  w.post(bob);
  for (let i = 0; i < 20; i++) {
    await w.attach(bob, 2_000);
    await w.time.advance(5_000);
  }
  expect(w.handOver.history).toHaveLength(1);
});

test('S8, S146: narrowed rights take copies back before the change is settled, and widening gives them again', async () => {
  await w.attach(bob);
  w.post(bob);
  await w.time.settle();
  expect(ids(bob)).toHaveLength(1);
  w.rights.set(bob, []);
  const changed = w.reader.rightsChanged(bob, 7);
  const settled = w.reader.settledTo(7, 5_000);
  const earlier = w.reader.settledTo(6, 5_000);
  expect(await earlier).toBe(true);
  await answer(changed);
  expect(w.handOver.copies.size).toBe(0);
  expect(await settled).toBe(true);
  expect(await pending(bob)).toMatchObject({ pending: 0, withheld: { 'no-right': 1 } });
  w.rights.set(bob, ['general']);
  await answer(w.reader.rightsChanged(bob, 8));
  expect(w.handOver.of(bob)).toMatchObject([{ handOver: 2 }]);
});

test('S180: while nobody can tell nothing is handed over, dropped or charged; afterwards it flows', async () => {
  await w.attach(bob);
  w.rights.current = false;
  for (let i = 0; i < 3; i++) w.post(bob);
  await w.time.advance(20_000);
  expect(w.handOver.history).toEqual([]);
  expect(await pending(bob)).toMatchObject({ pending: 3, deferred: { 'rights-not-current': 3 } });
  w.rights.current = true;
  await w.time.advance(30_000);
  expect(w.handOver.of(bob).map((c) => c.handOver)).toEqual([1, 1, 1]);
});

test('a row never seen is asked for with back-off, not at every tick', async () => {
  w.post(bob);
  await w.attach(bob);
  const row = w.rights.rowOf(bob);
  await w.confirmAll(bob);
  w.rights.rows.delete(bob);
  for (let i = 0; i < 50; i++) w.post(bob);
  await w.time.settle();
  const before = w.store.reads;
  await w.time.advance(110_000);
  expect(w.store.reads - before).toBeLessThan(20);
  if (row !== undefined) w.rights.rows.set(bob, row);
  await answer(w.reader.rightsChanged(bob));
  expect(await w.confirmAll(bob)).toHaveLength(50);
});

test('a doubt about one channel holds back that channel only, in order', async () => {
  w.member('bob', ['general', 'new']);
  w.memberships.set(bob, 'new', 1, { kind: 'joining', incarnation: INCARNATION, joinCursor: 0 });
  const a = w.put(bob, { channel: 'new' });
  const b = w.put(bob);
  await w.attach(bob);
  expect(ids(bob)).toEqual([b.entryId]);
  w.memberships.set(bob, 'new', 1, { kind: 'open', incarnation: INCARNATION, joinCursor: 0 });
  await answer(w.reader.membershipChanged(bob));
  expect(ids(bob)).toEqual([b.entryId, a.entryId]);
});

test('retraction waits for an outstanding publish: nothing surfaces after its answer', async () => {
  await w.attach(bob);
  let lost = 3;
  w.handOver.fault = (call) => (call === 'publish' && lost-- > 0 ? 'after' : undefined);
  w.post(bob);
  await w.time.settle();
  let answered = false;
  w.rights.set(bob, []);
  const retracted = w.reader.rightsChanged(bob).then(() => {
    answered = true;
  });
  await w.time.settle();
  expect(answered).toBe(false);
  expect(w.handOver.of(bob)).toHaveLength(1);
  await w.time.advance(3_000);
  await retracted;
  expect(w.handOver.copies.size).toBe(0);
});

test('a retraction whose answers are lost says unknown in time and is gone on with', async () => {
  await w.attach(bob);
  w.post(bob);
  await w.time.settle();
  w.handOver.fault = (call) => (call === 'purge' ? 'before' : undefined);
  w.rights.set(bob, []);
  const o = w.reader.retract(bob);
  await w.time.advance(15_000);
  expect(await o).toMatchObject({ kind: 'unknown' });
  expect(w.events).toContain('retraction-late');
  w.handOver.fault = () => undefined;
  await w.time.advance(15_000);
  expect(w.handOver.copies.size).toBe(0);
});

test('no entry leaves the store before the fan-out cursor has passed it', async () => {
  w.mayLeave = () => false;
  await w.attach(bob);
  w.post(bob);
  await w.time.settle();
  for (const c of w.handOver.of(bob)) w.handOver.ack(c);
  await w.time.advance(5_000);
  expect(w.store.of(bob)).toHaveLength(1);
  expect(w.reader.status().leavingParked).toBe(1);
  expect(await pending(bob)).toMatchObject({ pending: 0, handedOver: 0 });
  w.mayLeave = () => true;
  w.reader.progressed();
  await w.time.settle();
  expect(w.store.of(bob)).toEqual([]);
});

test('S178: one member that confirms nothing delays no other, and its backlog stays in the store', async () => {
  const others = Array.from({ length: 9 }, (_, i) => w.member(`m${i}`));
  for (const m of [bob, ...others]) await w.attach(m);
  for (let i = 0; i < 100; i++) for (const m of [bob, ...others]) w.post(m);
  await w.time.settle();
  for (const m of others) expect(await w.confirmAll(m)).toHaveLength(100);
  expect(w.handOver.of(bob)).toHaveLength(4);
  expect(w.store.of(bob)).toHaveLength(100);
});

test('S182: a busy member gets its entries all the same, and nothing is charged', async () => {
  await w.attach(bob);
  for (let i = 0; i < 4; i++) w.post(bob);
  await w.time.settle();
  for (let i = 0; i < 6; i++) {
    for (const c of w.handOver.of(bob)) w.handOver.ack(c, { payload: 'nak' });
    await w.time.advance(10_000);
  }
  expect(await w.confirmAll(bob)).toHaveLength(4);
  expect(counters()).toMatchObject({ busy: 24, redelivered: 0, confirmed: 4 });
});

test('a copy that stays unconfirmed past its age is handed over again, marked, once per age', async () => {
  await w.attach(bob, 10 * ACK_WAIT_MS);
  w.post(bob);
  await w.time.advance(4.5 * ACK_WAIT_MS);
  expect(w.handOver.history.map((c) => c.handOver)).toEqual([1, 2, 3]);
  expect(w.handOver.of(bob)).toHaveLength(1);
});

test('I21: entries that nobody told of are found by the watchdog, and it is counted', async () => {
  await w.attach(bob, 10 * ACK_WAIT_MS);
  await w.time.settle();
  w.put(bob);
  await w.time.advance(ACK_WAIT_MS);
  expect(w.handOver.history).toEqual([]);
  await w.time.advance(2 * ACK_WAIT_MS);
  expect(w.handOver.of(bob)).toHaveLength(1);
  expect(counters().watchdogRepairs).toBe(1);
});

test('stop takes back what is unconfirmed and leaves the entries', async () => {
  await w.attach(bob);
  for (let i = 0; i < 3; i++) w.post(bob);
  await w.time.settle();
  expect(await answer(w.reader.stop())).toBe(3);
  expect(w.handOver.copies.size).toBe(0);
  expect(w.store.of(bob)).toHaveLength(3);
  w.post(bob);
  await w.time.advance(5_000);
  expect(w.handOver.copies.size).toBe(0);
});

test('an attachment without a valid rights row holds nothing', async () => {
  w.rights.retire(bob);
  await w.attach(bob);
  await w.attach(memberKey('nobody'));
  expect(w.reader.status()).toMatchObject({ attached: 0, counters: { attachmentsIgnored: 2 } });
});

test('explain runs the release rule on the stored entry', async () => {
  const e = w.post(bob);
  w.rights.set(bob, ['general'], []);
  const o = await answer(w.reader.explain(bob, e.entryId));
  expect(o).toMatchObject({
    kind: 'done',
    value: { state: { kind: 'withheld', reason: 'over-ceiling' }, verdict: { kind: 'refuse' } },
  });
});

test('every way back to an earlier state names its bound', () => {
  for (const [path, bound] of LOOP_BACKS) expect(bound.length, path).toBeGreaterThan(10);
});
