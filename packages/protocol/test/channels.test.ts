import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  anyCovers,
  CHANNEL_CHARACTERS_MAX,
  covers,
  isChannel,
  isChannelPattern,
} from '../src/index.ts';

describe('channels (wire contract section 2)', () => {
  it('are dotted segments of letters, digits, - and _', () => {
    for (const c of ['team', 'team.backend', 'a-b_C.9', 'x'.repeat(CHANNEL_CHARACTERS_MAX)])
      expect(isChannel(c), c.slice(0, 20)).toBe(true);
    const bad = ['', '.', 'a.', '.a', 'a..b', 'a b', 'a\n', 'é', '*', '>', 'team.>', 'a/b', '$JS'];
    for (const c of [...bad, 'x'.repeat(CHANNEL_CHARACTERS_MAX + 1)])
      expect(isChannel(c), c.slice(0, 20)).toBe(false);
  });

  it('patterns hold * for one whole segment and > for the last only', () => {
    for (const p of ['team', '*', '>', 'team.*', 'team.>', '*.*.x', '*.>'])
      expect(isChannelPattern(p), p).toBe(true);
    for (const p of ['', 'team*', '>.team', 'team.>.x', 'a.**', 'team.>>', 'a..>'])
      expect(isChannelPattern(p), p).toBe(false);
  });

  it('team.> covers what is below team, not team itself', () => {
    expect(covers('team.>', 'team.backend')).toBe(true);
    expect(covers('team.>', 'team.backend.api')).toBe(true);
    expect(covers('team.>', 'team')).toBe(false);
    expect(covers('team.>', 'teams.x')).toBe(false);
    expect(covers('team.*', 'team.a.b')).toBe(false);
    expect(covers('Team', 'team')).toBe(false);
  });

  it('a malformed pattern or a wildcard in place of a channel covers nothing', () => {
    expect(covers('team.>.x', 'team.a.x')).toBe(false);
    expect(covers('>', 'a..b')).toBe(false);
    expect(covers('>', 'team.*')).toBe(false);
    expect(covers('team.>', 'team.>')).toBe(false);
  });
});

/** The reference: a pattern spelled out as a regular expression over whole segments. */
const reference = (pattern: string, channel: string): boolean => {
  if (!isChannelPattern(pattern) || !isChannel(channel)) return false;
  const source = pattern
    .split('.')
    .map((s) => (s === '*' ? '[^.]+' : s === '>' ? '.+' : s))
    .join('\\.');
  return new RegExp(`^${source}$`).test(channel);
};

const segment = fc.constantFrom('a', 'b', 'team', '*', '>', '', 'A');
const dotted = fc.array(segment, { minLength: 1, maxLength: 5 }).map((s) => s.join('.'));

describe('covering', () => {
  it('agrees with the reference for every pair of pattern and channel', () => {
    fc.assert(
      fc.property(dotted, dotted, (pattern, channel) => {
        expect(covers(pattern, channel)).toBe(reference(pattern, channel));
      }),
      { numRuns: 1_000 },
    );
  });

  it('agrees with the reference where the pattern was made from the channel', () => {
    const pair = fc
      .array(fc.tuple(fc.constantFrom('a', 'b', 'team'), fc.boolean()), {
        minLength: 1,
        maxLength: 5,
      })
      .chain((s) => fc.tuple(fc.constant(s), fc.integer({ min: 1, max: s.length }), fc.boolean()))
      .map(([s, cut, open]) => ({
        channel: s.map(([x]) => x).join('.'),
        pattern: [
          ...s.slice(0, cut).map(([x, any]) => (any ? '*' : x)),
          ...(open ? ['>'] : []),
        ].join('.'),
        covered: open ? cut < s.length : cut === s.length,
      }));
    fc.assert(
      fc.property(pair, ({ pattern, channel, covered }) => {
        expect(covers(pattern, channel)).toBe(covered);
        expect(reference(pattern, channel)).toBe(covered);
      }),
    );
  });

  it('a list covers what any of its patterns covers; the empty list covers nothing', () => {
    expect(anyCovers([], 'team')).toBe(false);
    fc.assert(
      fc.property(fc.array(dotted, { maxLength: 4 }), dotted, (patterns, channel) => {
        expect(anyCovers(patterns, channel)).toBe(patterns.some((p) => reference(p, channel)));
      }),
    );
  });
});
