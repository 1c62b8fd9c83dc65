import { entryId } from '@plane3/protocol';
import {
  type Decision,
  type Event,
  initial,
  isReady,
  type Judge,
  limitsOf,
  type StoredEntry,
  settingsOf,
  step,
} from '@plane3/reader';
import { expect, test } from 'vitest';
import { memberKey } from './world.ts';

const member = memberKey('bob');
const limits = limitsOf(settingsOf({ windowEntries: 2 }));
const allow: Judge = () => ({ kind: 'allow' });
const entry = (storeSeq: number, channel = 'a'): StoredEntry => {
  const ref = { member, incarnation: 'c', seq: storeSeq, generation: 1 };
  return {
    entry: ref,
    entryId: entryId(ref),
    storeSeq,
    channel,
    kind: 'durable',
    from: 'local.sender',
    storedAt: 0,
    body: new Uint8Array(1),
  };
};

function drive() {
  const state = initial(member, limits, 0);
  const tell = (event: Event, judge = allow): readonly Decision[] =>
    step(state, event, judge).decisions;
  const kinds = (ds: readonly Decision[]): string[] => ds.map((d) => d.kind);
  return { state, tell, kinds };
}

test('a member that attaches is read at once, from the first entry', () => {
  const { tell } = drive();
  expect(tell({ kind: 'attach', nowMs: 0, untilMs: 9 })).toEqual([
    { kind: 'read', readId: 1, fromSeq: 1 },
  ]);
});

test('what left the store during a read is not handed over out of its result', () => {
  const { state, tell } = drive();
  tell({ kind: 'attach', nowMs: 0, untilMs: 9 });
  tell({ kind: 'left', storeSeq: 1 });
  tell({ kind: 'read', readId: 1, entries: [entry(1), entry(2)], nextSeq: 3, complete: true });
  const issued = tell({ kind: 'turn', nowMs: 0, budget: 9 });
  expect(issued).toMatchObject([{ kind: 'publish', entry: { storeSeq: 2 } }]);
  expect(isReady(state)).toBe(false);
});

test('what is stored during a read is not missed', () => {
  const { tell } = drive();
  tell({ kind: 'attach', nowMs: 0, untilMs: 9 });
  tell({ kind: 'stored', entry: entry(7) });
  const ds = tell({ kind: 'read', readId: 1, entries: [entry(1)], nextSeq: 2, complete: true });
  expect(ds).toEqual([{ kind: 'read', readId: 2, fromSeq: 2 }]);
});

test('a copy told of late, below what was read, starts the pass anew', () => {
  const { tell } = drive();
  tell({ kind: 'attach', nowMs: 0, untilMs: 9 });
  tell({ kind: 'read', readId: 1, entries: [entry(5)], nextSeq: 6, complete: true });
  expect(tell({ kind: 'stored', entry: entry(3) })).toEqual([
    { kind: 'read', readId: 2, fromSeq: 3 },
  ]);
});

test('an ack that overtakes the answer to its publish counts once that is there', () => {
  const { tell, kinds } = drive();
  tell({ kind: 'attach', nowMs: 0, untilMs: 9 });
  tell({ kind: 'read', readId: 1, entries: [entry(1)], nextSeq: 2, complete: true });
  tell({ kind: 'turn', nowMs: 0, budget: 9 });
  const ack = { kind: 'ack', meaning: 'confirm', copySeq: 40, storedNs: '99', nowMs: 0 } as const;
  expect(tell(ack)).toEqual([]);
  const stored = { kind: 'published', storeSeq: 1, copySeq: 40, storedNs: '99', nowMs: 0 } as const;
  expect(kinds(tell(stored))).toEqual(['leave']);
});

test('while a retraction is under way nothing is read or issued; afterwards it goes on', () => {
  const { tell, kinds } = drive();
  tell({ kind: 'attach', nowMs: 0, untilMs: 9 });
  tell({ kind: 'hold' });
  tell({ kind: 'read', readId: 1, entries: [entry(1)], nextSeq: 2, complete: true });
  expect(tell({ kind: 'turn', nowMs: 0, budget: 9 })).toEqual([]);
  tell({ kind: 'resume' });
  expect(kinds(tell({ kind: 'turn', nowMs: 0, budget: 9 }))).toEqual(['publish']);
});

test('entries passed over are counted once, however often the pass starts anew', () => {
  const { state, tell } = drive();
  const refuse: Judge = () => ({ kind: 'refuse', effect: 'withhold', reason: 'no-right' });
  tell({ kind: 'attach', nowMs: 0, untilMs: 9 });
  for (let readId = 1; readId <= 3; readId++) {
    const entries = [entry(1), entry(2)];
    tell({ kind: 'read', readId, entries, nextSeq: 3, complete: true }, refuse);
    tell({ kind: 'turn', nowMs: 0, budget: 9 }, refuse);
    expect([...state.passedOver]).toEqual([['no-right', 2]]);
    tell({ kind: 'rejudge', nowMs: 0 }, refuse);
  }
});

test('what is passed over is not held: memory follows the window', () => {
  const { state, tell } = drive();
  const refuse: Judge = () => ({ kind: 'refuse', effect: 'withhold', reason: 'no-right' });
  tell({ kind: 'attach', nowMs: 0, untilMs: 9 });
  for (let readId = 1; readId <= 100; readId++) {
    const first = (readId - 1) * 100 + 1;
    const entries = Array.from({ length: 100 }, (_, i) => entry(first + i));
    tell({ kind: 'read', readId, entries, nextSeq: first + 100, complete: false }, refuse);
    tell({ kind: 'turn', nowMs: 0, budget: 1_000 }, refuse);
  }
  expect([...state.passedOver]).toEqual([['no-right', 10_000]]);
  expect([state.held.size, state.queue.length, state.handOvers.size]).toEqual([0, 0, 0]);
});

test('back-off doubles up to its ceiling while nobody can tell', () => {
  const { state, tell } = drive();
  const doubt: Judge = () => ({ kind: 'cannot-tell', why: 'rights-row-never-seen' });
  tell({ kind: 'attach', nowMs: 0, untilMs: 1e9 });
  const delays: number[] = [];
  let nowMs = 0;
  for (let readId = 1; readId <= 9; readId++) {
    tell({ kind: 'read', readId, entries: [entry(1)], nextSeq: 2, complete: true }, doubt);
    tell({ kind: 'turn', nowMs, budget: 9 }, doubt);
    delays.push((state.retryAtMs ?? 0) - nowMs);
    nowMs = state.retryAtMs ?? 0;
    tell({ kind: 'tick', nowMs }, doubt);
  }
  expect(delays).toEqual([500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]);
});
