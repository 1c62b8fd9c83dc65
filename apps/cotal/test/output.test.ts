import { expect, it } from 'vitest';
import { printable } from '../src/output.ts';

it('shows what others wrote without letting it steer the terminal', () => {
  expect(printable('plain, \u00e4 \u4f60\tand\nlines')).toBe('plain, \u00e4 \u4f60\tand\nlines');
  expect(printable('\u001b[31mred\u001b]0;title\u0007')).toBe('\\x1b[31mred\\x1b]0;title\\x07');
  expect(printable('\r\u009b2J')).toBe('\\x0d\\x9b2J');
});
