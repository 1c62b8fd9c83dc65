import {
  type Admission,
  type CredentialClaims,
  check,
  type Found,
  KICK_SUBJECT,
  listingSubject,
  type SecretRead,
} from '@plane3/observer-check';
import { ERRORS } from '@plane3/protocol';
import { describe, expect, test } from 'vitest';

const NOW_MS = Date.UTC(2026, 0, 1);
const OWN = 'AOWN';
const q = { daemonAccount: OWN, nowMs: NOW_MS };

const claims = (more: Partial<CredentialClaims> = {}): CredentialClaims => ({
  name: 'membership-observer',
  userKey: 'UOBS',
  issuer: 'AGEN1',
  account: 'ASYS',
  expiresAtMs: NOW_MS + 1,
  validFromMs: undefined,
  publish: { allow: [listingSubject(OWN)], deny: [] },
  subscribe: { allow: ['_INBOX_UOBS.>'], deny: [] },
  ...more,
});
const evictor = (more: Partial<CredentialClaims> = {}): CredentialClaims =>
  claims({
    name: 'connection-evictor',
    userKey: 'UEVI',
    publish: { allow: [KICK_SUBJECT], deny: [] },
    subscribe: { allow: ['_INBOX_UEVI.>'], deny: [] },
    ...more,
  });
const at = (read: SecretRead, where = 'store'): Found => ({ read, where });
const of = (c: CredentialClaims): SecretRead => ({ kind: 'credential', claims: c });
const absent: SecretRead = { kind: 'absent' };

const judge = (observer: SecretRead, other: SecretRead = absent): Admission =>
  check(at(observer, 'place 1'), at(other, 'place 2'), q);

function refusal(a: Admission): Extract<Admission, { ok: false }> {
  if (a.ok) throw new Error('accepted');
  return a;
}

describe('accepted', () => {
  test('an observer without an evictor: deny-new only', () => {
    expect(judge(of(claims()))).toEqual({
      ok: true,
      evictor: 'absent',
      posture: 'deny-new-only',
      observer: { account: OWN, userKey: 'UOBS', expiresAtMs: NOW_MS + 1, where: 'place 1' },
    });
  });

  test('a whole pair, also one that never ends', () => {
    const lasting = { expiresAtMs: undefined };
    expect(judge(of(claims(lasting)), of(evictor(lasting)))).toMatchObject({
      ok: true,
      evictor: 'present',
      posture: 'can-evict',
    });
  });
});

describe('refused, each with its code, what was compared and the repair', () => {
  const cases: readonly [string, SecretRead, SecretRead, string, readonly RegExp[]][] = [
    ['missing', absent, of(evictor()), 'observer-missing', [/place 1/]],
    [
      'unreadable',
      { kind: 'unreadable', why: 'EACCES' },
      absent,
      'observer-unreadable',
      [/EACCES/, /place 1/],
    ],
    [
      'undecodable',
      { kind: 'undecodable', why: 'empty' },
      absent,
      'observer-unreadable',
      [/empty/, /place 1/],
    ],
    [
      'S55: expired, at the very millisecond',
      of(claims({ expiresAtMs: NOW_MS })),
      absent,
      'observer-expired',
      [/2026-01-01T00:00:00.000Z/, /UOBS/, /place 1/],
    ],
    [
      'not valid yet',
      of(claims({ validFromMs: NOW_MS + 1 })),
      absent,
      'observer-expired',
      [/valid from/],
    ],
    [
      'S46, S52: of another account',
      of(claims({ publish: { allow: [listingSubject('AOTHER')], deny: [] } })),
      absent,
      'observer-foreign',
      [/AOTHER/, /AOWN/, /place 1/],
    ],
    [
      'of this and another account',
      of(claims({ publish: { allow: [listingSubject(OWN), listingSubject('AOTHER')], deny: [] } })),
      absent,
      'observer-foreign',
      [/AOTHER/],
    ],
    [
      'S57: evictor of another generation',
      of(claims()),
      of(evictor({ issuer: 'AGEN2' })),
      'observer-torn',
      [/AGEN1/, /AGEN2/, /place 2/],
    ],
    [
      'evictor of another account',
      of(claims()),
      of(evictor({ account: 'AELSE' })),
      'observer-torn',
      [/AELSE/],
    ],
    [
      'evictor undecodable',
      of(claims()),
      { kind: 'undecodable', why: 'empty' },
      'observer-torn',
      [/place 2/],
    ],
    [
      'evictor unreadable: nobody can say that it is absent',
      of(claims()),
      { kind: 'unreadable', why: 'no answer' },
      'observer-unreadable',
      [/connection-evictor/, /no answer/],
    ],
    [
      'evictor expired',
      of(claims()),
      of(evictor({ expiresAtMs: NOW_MS - 1 })),
      'observer-expired',
      [/connection-evictor/, /2025-12-31T23:59:59.999Z/],
    ],
    [
      'evictor that may not kick',
      of(claims()),
      of(evictor({ publish: { allow: ['x'], deny: [] } })),
      'observer-lacks-right',
      [/KICK/],
    ],
  ];
  for (const [what, observer, other, code, patterns] of cases)
    test(what, () => {
      const r = refusal(judge(observer, other));
      expect(r.code).toBe(code);
      for (const p of patterns) expect(r.detail).toMatch(p);
      expect(r.help).toMatch(/cotal|--root/);
      expect(ERRORS[r.code].exitCode).toBe(6);
    });

  const wrongRights: readonly [string, Partial<CredentialClaims>][] = [
    ['none', { publish: { allow: ['elsewhere'], deny: [] } }],
    ['everything, by an empty list', { publish: { allow: [], deny: [] } }],
    ['everything', { publish: { allow: ['>'], deny: [] } }],
    ['every account', { publish: { allow: [listingSubject('*')], deny: [] } }],
    ['more of this account', { publish: { allow: [`$SYS.REQ.ACCOUNT.${OWN}.>`], deny: [] } }],
    ['this and everything', { publish: { allow: [listingSubject(OWN), '$SYS.REQ.>'], deny: [] } }],
    [
      'denied again by name',
      { publish: { allow: [listingSubject(OWN)], deny: [listingSubject(OWN)] } },
    ],
    ['denied again by wildcard', { publish: { allow: [listingSubject(OWN)], deny: ['$SYS.>'] } }],
    ['deaf to its answers', { subscribe: { allow: ['$SYS.>'], deny: [] } }],
    ['deaf by denial', { subscribe: { allow: [], deny: ['_INBOX_UOBS.a'] } }],
  ];
  for (const [what, more] of wrongRights)
    test(`not exactly the listing right: ${what}`, () => {
      expect(refusal(judge(of(claims(more)))).code).toBe('observer-lacks-right');
    });
});
