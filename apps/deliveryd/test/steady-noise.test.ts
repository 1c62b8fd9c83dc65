import { expect, test } from 'vitest';
import { SteadyNoise } from '../src/steady-noise.ts';

test('what repeats is written ten times a minute, and the next line says how many were not', () => {
  let nowMs = 0;
  const noise = new SteadyNoise(() => nowMs);
  const written = Array.from({ length: 5_000 }, () => noise.admit('quarantined'));
  expect(written.filter((n) => n !== undefined)).toEqual(Array(10).fill(0));
  expect(noise.admit('evicted')).toBe(0);
  nowMs = 60_000;
  expect(noise.admit('quarantined')).toBe(4_990);
  expect(noise.admit('quarantined')).toBe(0);
});

test('it forgets no kind and knows a bounded number of them', () => {
  const noise = new SteadyNoise(() => 0);
  const written = Array.from({ length: 10_000 }, (_, i) => noise.admit(`kind ${i}`));
  expect(written.filter((n) => n !== undefined).length).toBeLessThanOrEqual(256 + 10);
});
