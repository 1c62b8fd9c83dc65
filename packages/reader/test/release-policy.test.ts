import { type JudgedEntry, judgeRelease, type ReleaseFacts } from '@plane3/reader';
import { expect, test } from 'vitest';
import { INCARNATION, memberKey, SENDER } from './world.ts';

const member = memberKey('bob');
const entry = (o: Partial<JudgedEntry> & { seq?: number } = {}): JudgedEntry => ({
  channel: 'a',
  kind: 'durable',
  from: SENDER,
  ...o,
  entry: { member, incarnation: INCARNATION, seq: o.seq ?? 5, generation: 1 },
});
const facts = (o: {
  allow?: string[];
  issued?: string[];
  current?: boolean;
  retired?: boolean;
  row?: undefined;
  membership?: ReleaseFacts['membership'];
  boundary?: 'hard' | 'cursor';
}): ReleaseFacts => ({
  rights: {
    current: o.current ?? true,
    row:
      'row' in o
        ? undefined
        : {
            allowSubscribe: o.allow ?? ['a'],
            issuedAllowSubscribe: o.issued ?? ['a'],
            ...(o.retired === true ? { retiredAt: 1 } : {}),
          },
  },
  membership: o.membership ?? { kind: 'open', incarnation: INCARNATION, joinCursor: 3 },
  leaveBoundary: o.boundary ?? 'hard',
});
const withheld = (reason: string) => ({ kind: 'refuse', effect: 'withhold', reason });
const disposed = (reason: string) => ({ kind: 'refuse', effect: 'dispose', reason });
const doubt = (why: string) => ({ kind: 'cannot-tell', why });
const closed = (leaveCursor: number): ReleaseFacts['membership'] => ({
  kind: 'closed',
  incarnation: INCARNATION,
  joinCursor: 3,
  leaveCursor,
});

test.each([
  ['a member inside its interval with the right reads', entry(), facts({}), { kind: 'allow' }],
  [
    'S8: the row alone does not widen',
    entry({ channel: 'b' }),
    facts({ allow: ['a', 'b'] }),
    withheld('over-ceiling'),
  ],
  ['S8: narrowing to nothing withholds', entry(), facts({ allow: [] }), withheld('no-right')],
  [
    'an issued right without the row withholds',
    entry(),
    facts({ allow: ['b'], issued: ['a'] }),
    withheld('no-right'),
  ],
  [
    'a mention needs no membership',
    entry({ kind: 'mention' }),
    facts({ membership: { kind: 'none' } }),
    { kind: 'allow' },
  ],
  [
    'a mention needs the right',
    entry({ kind: 'mention' }),
    facts({ allow: [] }),
    withheld('no-right'),
  ],
  ['a stale view cannot tell', entry(), facts({ current: false }), doubt('rights-not-current')],
  [
    'a stale view cannot refuse either',
    entry(),
    facts({ current: false, allow: [] }),
    doubt('rights-not-current'),
  ],
  [
    'a row never seen cannot tell',
    entry(),
    facts({ row: undefined }),
    doubt('rights-row-never-seen'),
  ],
  [
    'retired disposes, also from a stale view',
    entry(),
    facts({ retired: true, current: false }),
    disposed('retired'),
  ],
  [
    'a closed generation disposes below its leave cursor',
    entry(),
    facts({ membership: closed(9) }),
    disposed('left'),
  ],
  [
    'a closed generation disposes from a stale view',
    entry(),
    facts({ membership: closed(9), current: false }),
    disposed('left'),
  ],
  [
    'boundary cursor keeps what lies below it',
    entry(),
    facts({ membership: closed(5), boundary: 'cursor' }),
    { kind: 'allow' },
  ],
  [
    'boundary cursor disposes above it',
    entry(),
    facts({ membership: closed(4), boundary: 'cursor' }),
    disposed('left'),
  ],
  [
    'a post at the join cursor is outside',
    entry({ seq: 3 }),
    facts({}),
    withheld('outside-interval'),
  ],
  [
    'another stream incarnation is outside',
    entry(),
    facts({ membership: { kind: 'open', incarnation: 'x', joinCursor: 0 } }),
    withheld('outside-interval'),
  ],
  [
    'no membership withholds',
    entry(),
    facts({ membership: { kind: 'none' } }),
    withheld('no-membership'),
  ],
  [
    'an unproved registry cannot tell',
    entry(),
    facts({ membership: { kind: 'unknown' } }),
    doubt('membership-not-current'),
  ],
  [
    'a join that is not activated cannot tell',
    entry(),
    facts({ membership: { kind: 'joining', incarnation: INCARNATION, joinCursor: 3 } }),
    doubt('membership-not-active'),
  ],
  [
    'never a copy for the sender itself',
    entry({ from: 'local.bob' }),
    facts({}),
    disposed('own-post'),
  ],
  [
    'a sender whose name begins alike is another one',
    entry({ from: 'local.bo' }),
    facts({}),
    { kind: 'allow' },
  ],
] as const)('%s', (_title, e, f, verdict) => {
  expect(judgeRelease(e, f)).toEqual(verdict);
});
