import {
  decodeRow,
  encodeRow,
  type Interval,
  type MembershipRow,
  membershipKey,
  nextGeneration,
  parseMembershipKey,
} from '@plane3/registry';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';

const MEMBER = `local.alice.${'a'.repeat(26)}`;
const KEY = membershipKey('team.a', MEMBER);
const bytes = (x: unknown): Uint8Array => new TextEncoder().encode(JSON.stringify(x));

const count = fc.nat(Number.MAX_SAFE_INTEGER);
const interval: fc.Arbitrary<Interval> = fc.record(
  {
    generation: fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER }),
    incarnation: fc.stringMatching(/^[0-9a-z]{1,14}$/),
    joinCursor: count,
    cursorSource: fc.constantFrom('client' as const, 'frontier' as const),
    lost: fc.record({ from: count, to: count }),
  },
  { requiredKeys: ['generation', 'incarnation', 'joinCursor', 'cursorSource'] },
);
const row: fc.Arbitrary<MembershipRow> = fc
  .tuple(
    interval,
    fc.constantFrom('joining' as const, 'active' as const, 'leaving' as const, 'closed' as const),
    count,
    fc.array(interval, { maxLength: 3 }),
    fc.string(),
  )
  .map(([i, state, leaveCursor, past, writer]) => ({
    ...i,
    channel: 'team.a',
    member: MEMBER,
    state,
    ...(state === 'leaving' || state === 'closed' ? { leaveCursor } : {}),
    writer,
    past,
  }));

describe('a membership row', () => {
  it('comes back from its bytes as it was', () => {
    fc.assert(
      fc.property(row, (r) => {
        expect(decodeRow(KEY, encodeRow(r))).toEqual(r);
      }),
    );
  });

  it('of another key, version, state or cursor is none', () => {
    const good = JSON.parse(
      new TextDecoder().decode(
        encodeRow({
          channel: 'team.a',
          member: MEMBER,
          state: 'active',
          generation: 1,
          incarnation: 'x',
          joinCursor: 0,
          cursorSource: 'frontier',
          writer: 'w',
          past: [],
        }),
      ),
    ) as Record<string, unknown>;
    expect(decodeRow(KEY, bytes(good))).toBeDefined();
    const bad: Record<string, unknown>[] = [
      { v: 2 },
      { channel: 'team' },
      { principal: 'local.bob' },
      { uid: 'b'.repeat(26) },
      { state: 'gone' },
      { state: 'closed' },
      { leaveCursor: 3 },
      { generation: 0 },
      { generation: 1.5 },
      { joinCursor: -1 },
      { joinCursor: '0' },
      { cursorSource: 'me' },
      { writer: undefined },
      { past: undefined },
      { past: [{}] },
      { lost: { from: 1 } },
    ];
    for (const b of bad)
      expect(decodeRow(KEY, bytes({ ...good, ...b })), JSON.stringify(b)).toBeUndefined();
    expect(decodeRow(KEY, new Uint8Array([0xff]))).toBeUndefined();
    expect(decodeRow(KEY, bytes([good]))).toBeUndefined();
  });

  it('has a key of exactly a channel and a lifecycle', () => {
    expect(parseMembershipKey(KEY)).toEqual({ channel: 'team.a', member: MEMBER });
    for (const key of [
      '',
      'team.a',
      `/${MEMBER}`,
      `team.>/${MEMBER}`,
      `a/${MEMBER}/b`,
      'a/local.x',
    ])
      expect(parseMembershipKey(key), key).toBeUndefined();
  });
});

it('a generation is above the last one and not below what the store ever counted', () => {
  expect(nextGeneration(undefined, 0)).toBe(1);
  expect(nextGeneration(undefined, 40)).toBe(40);
  expect(nextGeneration(41, 40)).toBe(42);
});
