import type { Counters } from './model.ts';

const zeroes = <K extends string>(...keys: readonly K[]): Record<K, number> =>
  Object.fromEntries(keys.map((k) => [k, 0])) as Record<K, number>;

export const noCounts = (): Counters => ({
  posts: 0,
  copies: 0,
  found: 0,
  duplicates: 0,
  falseDuplicates: 0,
  withdrawn: 0,
  caughtUp: 0,
  recoveries: 0,
  evicted: 0,
  buried: zeroes(
    'malformed-subject',
    'sender-mismatch',
    'malformed-json',
    'broker-headers',
    'too-large',
  ),
  mentions: zeroes(
    'copied',
    'nobody',
    'ambiguous',
    'unauthorised',
    'self',
    'same-member',
    'over-budget',
  ),
});
