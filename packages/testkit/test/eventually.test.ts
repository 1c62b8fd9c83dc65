import { eventually } from '@plane3/testkit';
import { expect, test } from 'vitest';

test('the first answer that is neither false nor undefined is given', async () => {
  let calls = 0;
  expect(await eventually(() => (++calls < 3 ? undefined : calls), { everyMs: 1 })).toBe(3);
  expect(await eventually(() => 0)).toBe(0);
});

test('when the time is over the last failure is thrown', async () => {
  const failing = (): never => {
    throw new Error('the reason');
  };
  await expect(eventually(failing, { timeoutMs: 5, everyMs: 1 })).rejects.toThrow('the reason');
  await expect(eventually(() => false, { timeoutMs: 5, everyMs: 1 })).rejects.toThrow(/5 ms/);
});
