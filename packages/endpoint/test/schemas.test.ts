import { expect, it } from 'vitest';
import { DELIVERY_COMMANDS } from '../src/index.ts';

it('every schema of the contract compiles and judges, in strict mode', () => {
  const commands = [...DELIVERY_COMMANDS.values()];
  expect(commands.length).toBeGreaterThan(9);
  for (const c of commands) {
    expect(c.checkInput(42).ok, c.name).toBe(false);
    expect(c.checkOutput(42).ok, c.name).toBe(false);
  }
});
