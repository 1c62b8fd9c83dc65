import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Simulation, type Tally } from './simulation.ts';

const RUNS = 120;

function runs(o: { rivals: number; clockJumps: boolean }): Tally {
  const tally: Tally = {};
  fc.assert(
    fc.property(fc.integer(), (seed) => {
      const sim = new Simulation({ seed, ...o, faultyMs: 20_000, calmMs: 15_000 });
      sim.run();
      for (const [k, n] of Object.entries(sim.tally)) tally[k] = (tally[k] ?? 0) + n;
      expect(sim.violations).toEqual([]);
      expect(sim.holders()).toHaveLength(1);
    }),
    { numRuns: RUNS },
  );
  return tally;
}

const HARD = [
  'killed',
  'stalled',
  'cut',
  'took-over',
  'held-created',
  'held-superseded',
  'regained-adopted',
  'lost-taken',
  'doubt-window-passed',
  'fenced-off',
  'refused-held-and-alive',
  'released',
];

test('two rivals: at most one is trusted, no row is stolen, and one serves in the end', () => {
  const tally = runs({ rivals: 2, clockJumps: false });
  for (const what of HARD) expect(tally[what] ?? 0, what).toBeGreaterThan(0);
  expect(tally['two-trusted']).toBeUndefined();
});

test('three rivals: at most one is trusted, no row is stolen, and one serves in the end', () => {
  const tally = runs({ rivals: 3, clockJumps: false });
  for (const what of [...HARD, 'refused-held-and-not-answering'])
    expect(tally[what] ?? 0, what).toBeGreaterThan(0);
  expect(tally['two-trusted']).toBeUndefined();
});

test('a leaping broker clock: no stale write is stored after one of a newer term', () => {
  const tally = runs({ rivals: 3, clockJumps: true });
  for (const what of [
    'clock-jumped',
    'two-trusted',
    'fenced-off',
    'doubt-row-taken',
    'regained-created',
  ])
    expect(tally[what] ?? 0, what).toBeGreaterThan(0);
});
