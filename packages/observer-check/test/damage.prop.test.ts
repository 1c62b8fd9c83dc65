import {
  admitObserver,
  type CredentialClaims,
  check,
  type Found,
  KICK_SUBJECT,
  listingSubject,
  type SecretRead,
} from '@plane3/observer-check';
import { MemorySecrets } from '@plane3/observer-check/memory';
import { checkObserver, jwtDecoder } from '@plane3/observer-check/nats';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { evictorCreds, newAccount, observerCreds } from './credentials.ts';

const NOW_MS = 1_800_000_000_000;
const q = { daemonAccount: 'AOWN', nowMs: NOW_MS };

const whole = (name: string, userKey: string, subject: string): CredentialClaims => ({
  name,
  userKey,
  issuer: 'AGEN',
  account: 'ASYS',
  expiresAtMs: NOW_MS + 60_000,
  validFromMs: undefined,
  publish: { allow: [subject], deny: [] },
  subscribe: { allow: [`_INBOX_${userKey}.>`], deny: [] },
});
const OBSERVER = whole('membership-observer', 'UO', listingSubject('AOWN'));
const EVICTOR = whole('connection-evictor', 'UE', KICK_SUBJECT);

type Damage = (c: CredentialClaims) => SecretRead;
const of = (claims: CredentialClaims): SecretRead => ({ kind: 'credential', claims });
const common: readonly Damage[] = [
  () => ({ kind: 'unreadable', why: 'x' }),
  () => ({ kind: 'undecodable', why: 'x' }),
  (c) => of({ ...c, expiresAtMs: NOW_MS }),
  (c) => of({ ...c, expiresAtMs: 0 }),
  (c) => of({ ...c, validFromMs: NOW_MS + 1 }),
  (c) => of({ ...c, publish: { ...c.publish, allow: [] } }),
  (c) => of({ ...c, publish: { ...c.publish, allow: ['other'] } }),
  (c) => of({ ...c, publish: { ...c.publish, deny: ['$SYS.>'] } }),
];
const observerDamages: readonly Damage[] = [
  ...common,
  () => ({ kind: 'absent' }),
  (c) => of({ ...c, publish: { allow: [listingSubject('AOTHER')], deny: [] } }),
  (c) => of({ ...c, publish: { allow: [listingSubject('*')], deny: [] } }),
  (c) => of({ ...c, publish: { allow: [...c.publish.allow, '>'], deny: [] } }),
  (c) => of({ ...c, subscribe: { allow: ['other'], deny: [] } }),
];
const evictorDamages: readonly Damage[] = [
  ...common,
  (c) => of({ ...c, issuer: 'AGEN2' }),
  (c) => of({ ...c, account: 'AELSE' }),
];
const damaged = (c: CredentialClaims, damages: readonly Damage[]): fc.Arbitrary<SecretRead> =>
  fc
    .array(fc.constantFrom(...damages), { minLength: 1, maxLength: 4 })
    .map((ds) =>
      ds.reduce<SecretRead>((r, d) => (r.kind === 'credential' ? d(r.claims) : r), of(c)),
    );
const found = (read: SecretRead): Found => ({ read, where: 'x' });

test('no combination of damaged inputs is accepted', () => {
  const anyEvictor = fc.oneof(
    damaged(EVICTOR, evictorDamages),
    fc.constant<SecretRead>(of(EVICTOR)),
    fc.constant<SecretRead>({ kind: 'absent' }),
  );
  const badObserver = fc.tuple(damaged(OBSERVER, observerDamages), anyEvictor);
  const badEvictor = fc.tuple(fc.constant(of(OBSERVER)), damaged(EVICTOR, evictorDamages));
  fc.assert(
    fc.property(fc.oneof(badObserver, badEvictor), ([observer, evictor]) => {
      expect(check(found(observer), found(evictor), q).ok).toBe(false);
    }),
    { numRuns: 200 },
  );
  expect(check(found(of(OBSERVER)), found(of(EVICTOR)), q).ok).toBe(true);
});

test('no damaged byte of a credentials file is accepted as an observer of ours', async () => {
  const system = newAccount();
  const own = newAccount().key;
  const o = { expiresAtMs: NOW_MS + 60_000 };
  const good = await observerCreds(system, own, o);
  const admit = (bytes: Uint8Array) =>
    checkObserver({
      secrets: new MemorySecrets({ 'membership-observer': bytes }),
      daemonAccount: own,
      nowMs: NOW_MS,
    });
  expect((await admit(good)).ok).toBe(true);
  // The signed token: a changed character of it is another token, or none.
  const text = new TextDecoder().decode(good);
  const from = text.indexOf('eyJ');
  const to = text.indexOf('\n', from);
  const payloadTo = text.lastIndexOf('.', to);
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: from, max: payloadTo - 1 }),
      fc.constantFrom('A', 'z', '0', '-', '.', '\n'),
      async (i, c) => {
        fc.pre(text[i] !== c);
        const bytes = new TextEncoder().encode(text.slice(0, i) + c + text.slice(i + 1));
        expect((await admit(bytes)).ok).toBe(false);
      },
    ),
    { numRuns: 25 },
  );
});

test('whatever bytes a store holds, the answer is a refusal and never a throw', async () => {
  await fc.assert(
    fc.asyncProperty(fc.uint8Array({ maxLength: 200 }), fc.boolean(), async (bytes, asEvictor) => {
      const system = newAccount();
      const secrets = new MemorySecrets({
        [asEvictor ? 'connection-evictor' : 'membership-observer']: bytes,
      });
      if (asEvictor) secrets.set('membership-observer', await observerCreds(system, 'AOWN'));
      const a = await admitObserver({ secrets, decoder: jwtDecoder, ...q });
      expect(a.ok).toBe(false);
    }),
    { numRuns: 15 },
  );
});

test('a pair of which one was signed anew is torn, both ways', async () => {
  const system = newAccount();
  const next = { ...newAccount(), root: system.root, key: system.key };
  const own = newAccount().key;
  for (const [a, b, ok] of [
    [system, system, true],
    [next, next, true],
    [system, next, false],
    [next, system, false],
  ] as const) {
    const secrets = new MemorySecrets({
      'membership-observer': await observerCreds(a, own),
      'connection-evictor': await evictorCreds(b),
    });
    const verdict = await checkObserver({ secrets, daemonAccount: own, nowMs: NOW_MS });
    expect(verdict.ok).toBe(ok);
    if (!verdict.ok) expect(verdict.code).toBe('observer-torn');
  }
});
