import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  isActor,
  isCommand,
  isId,
  isNonce,
  isOwner,
  isSpaceName,
  isUid,
  lifecycleDash,
  lifecycleKey,
  parseLifecycle,
  parsePrincipal,
  principalId,
  samePrincipal,
  spaceFileKey,
  spaceToken,
} from '../src/index.ts';
import { damage, lifecycle, principal } from './arbitraries.ts';

const A = `u_${'a'.repeat(26)}`;
const UID = 'a'.repeat(26);

describe('identity (wire contract section 1)', () => {
  it.each([
    [
      'owner',
      isOwner,
      ['local', A, `u_${'2'.repeat(26)}`],
      ['', 'Local', 'locals', `u_${'a'.repeat(25)}`, `u_${'1'.repeat(26)}`, 'UAQG', `${A}\n`],
    ],
    [
      'actor',
      isActor,
      ['a', 'Alice_1', 'x'.repeat(64)],
      ['', 'a-b', 'a.b', 'x'.repeat(65), 'é', 'a '],
    ],
    [
      'uid',
      isUid,
      [UID, '0'.repeat(32)],
      ['a'.repeat(25), 'a'.repeat(33), 'A'.repeat(26), `${'a'.repeat(25)}_`],
    ],
    [
      'nonce',
      isNonce,
      ['x'.repeat(22), '-_'.repeat(32)],
      ['x'.repeat(21), 'x'.repeat(65), `${'x'.repeat(21)}.`],
    ],
    [
      'command',
      isCommand,
      ['join', 'dead-letter-retry', 'x'.repeat(32)],
      ['', 'Join', 'x'.repeat(33), 'a_b'],
    ],
    ['id', isId, ['1', 'a-B_9', 'x'.repeat(64)], ['', 'x'.repeat(65), 'a.b', '*']],
  ])('knows a %s from what is none', (_, is, good, bad) => {
    for (const text of good) expect(is(text), text).toBe(true);
    for (const text of bad) expect(is(text), text).toBe(false);
  });

  it('writes the dot form in subjects and keys, the dash form in durable names', () => {
    const l = { owner: A, actor: 'alice', uid: UID };
    expect(principalId(l)).toBe(`${A}.alice`);
    expect(lifecycleKey(l)).toBe(`${A}.alice.${UID}`);
    expect(lifecycleDash(l)).toBe(`${A}-alice-${UID}`);
  });

  it('reads back every principal and lifecycle that it wrote, and none that was damaged', () => {
    fc.assert(
      fc.property(principal, lifecycle, (p, l) => {
        expect(parsePrincipal(principalId(p))).toEqual(p);
        expect(parseLifecycle(lifecycleKey(l))).toEqual(l);
        expect(parsePrincipal(lifecycleKey(l))).toBeUndefined();
        expect(parseLifecycle(principalId(l))).toBeUndefined();
      }),
    );
    fc.assert(
      fc.property(
        lifecycle.chain((l) => damage(lifecycleKey(l))),
        (text) => {
          const parsed = parseLifecycle(text);
          if (parsed !== undefined) expect(lifecycleKey(parsed)).toBe(text);
        },
      ),
    );
  });

  it('takes two lifecycles of one name for one principal', () => {
    const l = { owner: 'local', actor: 'a', uid: UID };
    expect(samePrincipal(l, { ...l, ...{ uid: 'b'.repeat(26) } })).toBe(true);
    expect(samePrincipal(l, { owner: 'local', actor: 'A' })).toBe(false);
    expect(samePrincipal(l, { owner: A, actor: 'a' })).toBe(false);
  });
});

describe('the name of a space', () => {
  it('becomes a routing token of the same length in UTF-16 that needs no quoting', () => {
    expect(spaceToken('My Space.2')).toBe('My_Space_2');
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', minLength: 1 }), (s) => {
        expect(spaceToken(s)).toMatch(/^[A-Za-z0-9_-]+$/);
        expect(spaceToken(spaceToken(s))).toBe(spaceToken(s));
      }),
    );
  });

  it('has a file key of its own, also beside one that differs only in letter case', () => {
    expect(spaceFileKey('main')).toBe('6d61696e');
    expect(spaceFileKey('Main')).toBe('4d61696e');
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), (s) => {
        expect(Buffer.from(spaceFileKey(s), 'hex').toString('utf8')).toBe(s);
      }),
    );
  });

  it('is printable, without blanks at the ends, and short enough for a file name', () => {
    for (const s of ['main', 'a', 'My space 2', 'größe', '部屋', '🚀 base', 'x'.repeat(64)])
      expect(isSpaceName(s), s).toBe(true);
    const bad = [
      '',
      ' ',
      ' a',
      'a ',
      'a\tb',
      'a\nb',
      'a\u0000b',
      'a\u202eb',
      '\ud800',
      'x'.repeat(65),
    ];
    for (const s of [...bad, '部'.repeat(64)])
      expect(isSpaceName(s), JSON.stringify(s)).toBe(false);
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', maxLength: 70 }), (s) => {
        if (isSpaceName(s))
          expect(`delivery.${spaceFileKey(s)}.log.stderr`.length).toBeLessThan(256);
      }),
    );
  });
});
