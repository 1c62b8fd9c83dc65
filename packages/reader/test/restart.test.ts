import { beforeEach, expect, test } from 'vitest';
import { World } from './world.ts';

const ACK_WAIT_MS = 60_000;
let w: World;
let bob: string;
beforeEach(async () => {
  w = new World({ windowEntries: 4, pageEntries: 8 });
  bob = w.member('bob');
  await w.boot();
});
const answer = async <T>(p: Promise<T>): Promise<T> => {
  await w.time.settle();
  return p;
};
const counters = () => w.reader.status().counters;

test('S7, S169: kill at hand-over: the next daemon adopts, a late ack counts, nothing is handed over twice', async () => {
  await w.attach(bob);
  for (let i = 0; i < 3; i++) w.post(bob);
  await w.time.settle();
  const copies = w.handOver.of(bob);
  await w.boot();
  await w.attach(bob);
  expect(counters().handedOver).toBe(0);
  expect(w.reader.status()).toMatchObject({ handedOver: 3 });
  for (const c of copies) w.handOver.ack(c);
  await w.time.settle();
  expect(w.store.of(bob)).toEqual([]);
});

test('I17: what was confirmed while no daemon listened is confirmed by the floor, the rest stays', async () => {
  w.handOver.makeDurable(bob);
  await w.attach(bob);
  const posts = Array.from({ length: 4 }, () => w.post(bob));
  await w.time.settle();
  const [first, second] = w.handOver.of(bob);
  if (first === undefined || second === undefined) throw new Error('no copies');
  w.handOver.ack(first, { heard: false });
  w.handOver.ack(second, { heard: false });
  await w.boot();
  await w.time.advance(1_000);
  expect(w.store.of(bob).map((e) => e.entryId)).toEqual(posts.slice(2).map((e) => e.entryId));
  expect(counters()).toMatchObject({ confirmedAtStart: 2, adopted: 2, confirmed: 2 });
  expect(w.handOver.of(bob)).toHaveLength(2);
});

test('a floor that a purge has moved confirms nothing', async () => {
  w.handOver.makeDurable(bob);
  await w.attach(bob);
  w.post(bob);
  await w.time.settle();
  w.handOver.copies.clear();
  await w.boot();
  expect(w.store.of(bob)).toHaveLength(1);
  await w.attach(bob);
  expect(w.handOver.of(bob)).toHaveLength(1);
});

test('a purge between the floor and the look at the copy confirms nothing', async () => {
  w.handOver.makeDurable(bob);
  await w.attach(bob);
  w.post(bob);
  await w.time.settle();
  const [copy] = w.handOver.of(bob);
  if (copy === undefined) throw new Error('no copy');
  w.handOver.ack(copy, { heard: false });
  const floorOf = w.handOver.floorOf.bind(w.handOver);
  w.handOver.floorOf = async (member) => {
    const floor = await floorOf(member);
    w.handOver.copies.clear();
    return floor;
  };
  await w.boot();
  await w.time.advance(1_000);
  expect(w.store.of(bob)).toHaveLength(1);
});

test('a copy without an entry, left by a crash, is removed at start', async () => {
  await w.attach(bob);
  const e = w.post(bob);
  await w.time.settle();
  w.store.entries.delete(e.storeSeq);
  await w.boot();
  await w.time.advance(1_000);
  expect(w.handOver.copies.size).toBe(0);
  expect(counters().orphansRemoved).toBe(1);
});

test('what may not be read any more is taken back at start, before the start is answered', async () => {
  await w.attach(bob);
  w.post(bob);
  await w.time.settle();
  w.rights.set(bob, []);
  await w.boot();
  expect(w.handOver.copies.size).toBe(0);
  expect(w.store.of(bob)).toHaveLength(1);
});

test('a lost fence ends everything at once and says so; a new term goes on', async () => {
  await w.attach(bob);
  w.handOver.fence++;
  w.post(bob);
  await w.time.settle();
  expect(w.events.at(-1)).toBe('fence-lost');
  expect(w.reader.status().phase).toBe('ended');
  expect(await w.reader.retract(bob)).toMatchObject({ kind: 'refused', reason: 'not-started' });
  const again = w.reader.start({ fenceSeq: w.handOver.fence, incarnation: 'dx' });
  await answer(again);
  await w.attach(bob);
  expect(w.handOver.of(bob)).toHaveLength(1);
});

test('a recreated hand-over stream is noticed within a sweep', async () => {
  await w.attach(bob);
  w.handOver.created = 'stream-2';
  await w.time.advance(2_000);
  expect(w.events.at(-1)).toBe('hand-over-recreated');
});

test('a publish nobody can answer for is repeated under the same id and stored once', async () => {
  await w.attach(bob);
  const faults = ['before', 'after', 'before'] as const;
  let n = 0;
  w.handOver.fault = (call) => (call === 'publish' ? faults[n++] : undefined);
  w.post(bob);
  await w.time.advance(2_000);
  expect(w.handOver.history).toHaveLength(1);
  expect(w.handOver.of(bob)).toMatchObject([{ handOver: 1 }]);
  expect(counters()).toMatchObject({ handedOver: 1, burnt: 0 });
});

test('a count that the duplicate window has swallowed is passed over for the next one', async () => {
  w = new World({ windowEntries: 4, lateAcksMax: 1 });
  bob = w.member('bob');
  await w.boot();
  w.post(bob);
  w.post(bob);
  await w.attach(bob, 1_000);
  await w.time.advance(3_000 + ACK_WAIT_MS);
  expect(w.reader.status().lingering).toBe(0);
  // What happened to the first one is forgotten by now.
  await w.attach(bob);
  expect(w.handOver.of(bob)).toMatchObject([{ handOver: 2 }, { handOver: 2 }]);
  expect(counters()).toMatchObject({ burnt: 1, handedOver: 4, redelivered: 2 });
});

test('a burnt count is no way around the rights: the next one is judged anew', async () => {
  w = new World({ windowEntries: 4, lateAcksMax: 1 });
  bob = w.member('bob');
  await w.boot();
  w.post(bob);
  w.post(bob);
  await w.attach(bob, 1_000);
  await w.time.advance(3_000 + ACK_WAIT_MS);
  const readCopy = w.handOver.readCopy.bind(w.handOver);
  w.handOver.readCopy = (copySeq) => {
    w.rights.set(bob, []);
    return readCopy(copySeq);
  };
  await w.attach(bob);
  expect(counters().burnt).toBe(1);
  expect(w.handOver.history.filter((c) => c.handOver > 1)).toHaveLength(1);
});
