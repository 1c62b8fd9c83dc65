import { chmodSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { decode } from '@nats-io/jwt';
import { createUser } from '@nats-io/nkeys';
import { ACCOUNTS, ensureSecretFolder, spacePaths, TrustStore } from '@plane3/space';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { newRoot } from './support/broker.ts';

let root = '';
beforeEach(() => {
  root = newRoot();
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

interface AccountClaims {
  signing_keys: string[];
  imports?: unknown;
  exports?: unknown;
  limits: Record<string, number>;
  revocations?: Record<string, number>;
}
const claimsOf = async (trust: Awaited<ReturnType<TrustStore['create']>>, account: 'space') =>
  decode<AccountClaims>(await trust.accountJwt(account));

test('a chain appears whole: 0600 in a 0700 folder, nothing beside it', async () => {
  const store = new TrustStore(root);
  expect(store.state('main')).toBe('absent');
  await store.create('main');
  expect(store.state('main')).toBe('ready');
  const paths = spacePaths(root, 'main');
  expect(statSync(paths.trustFile).mode & 0o777).toBe(0o600);
  expect(statSync(paths.authFolder).mode & 0o777).toBe(0o700);
});

test('two creations at once end with the same chain', async () => {
  const all = await Promise.all([1, 2, 3].map(() => new TrustStore(root).create('main')));
  expect(new Set(all.map((t) => t.accountKey('space'))).size).toBe(1);
  expect(new Set(all.map((t) => t.operatorJwt)).size).toBe(1);
});

test('a creation that was cut off is recognised and finished', async () => {
  const { trustFile, authFolder } = spacePaths(root, 'main');
  ensureSecretFolder(authFolder);
  writeFileSync(`${trustFile}.1.2.draft`, '{"v":1,', { mode: 0o600 });
  const store = new TrustStore(root);
  expect(store.state('main')).toBe('unfinished');
  await store.create('main');
  expect(store.state('main')).toBe('ready');
});

test('a chain is damaged, and never made anew over, when cut, mixed or open to others', async () => {
  const store = new TrustStore(root);
  await store.create('main');
  await store.create('other');
  const path = spacePaths(root, 'main').trustFile;
  const good = readFileSync(path, 'utf8');
  const foreign = JSON.parse(readFileSync(spacePaths(root, 'other').trustFile, 'utf8'));
  const mixed = {
    ...JSON.parse(good),
    operator: { ...JSON.parse(good).operator, jwt: foreign.operator.jwt },
  };
  for (const text of [good.slice(0, 200), '{}', JSON.stringify(foreign), JSON.stringify(mixed)]) {
    writeFileSync(path, text);
    expect(store.state('main')).toBe('damaged');
    await expect(store.create('main')).rejects.toMatchObject({ code: 'credential-unreadable' });
    expect(readFileSync(path, 'utf8')).toBe(text);
  }
  writeFileSync(path, good);
  chmodSync(path, 0o644);
  expect(() => store.open('main')).toThrow(/others may read it/);
});

test('an error about a chain quotes nothing of it', async () => {
  const store = new TrustStore(root);
  await store.create('main');
  const path = spacePaths(root, 'main').trustFile;
  const text = readFileSync(path, 'utf8');
  writeFileSync(path, text.replace('"v":1', '"v":2'));
  const error = (() => {
    try {
      return store.open('main');
    } catch (e) {
      return e;
    }
  })();
  const shown = JSON.stringify(error, Object.getOwnPropertyNames(error));
  expect(shown).not.toMatch(/S[OAU][A-Z2-7]{40}/);
});

test('spaces of one root have chains of their own', async () => {
  const store = new TrustStore(root);
  const [a, b] = [await store.create('main'), await store.create('Main')];
  expect(a.accountKey('space')).not.toBe(b.accountKey('space'));
  expect(() => store.open('third')).toThrow(expect.objectContaining({ code: 'space-unknown' }));
});

test('accounts neither export nor import, and only their signing key is in their token', async () => {
  const trust = await new TrustStore(root).create('main', { diskBytesMax: 1_000 });
  expect(new Set(ACCOUNTS.map((a) => trust.accountKey(a))).size).toBe(3);
  const { nats, iss, sub } = await claimsOf(trust, 'space');
  expect(sub).toBe(trust.accountKey('space'));
  expect(iss).not.toBe(decode(trust.operatorJwt).sub);
  expect(nats.signing_keys).toEqual([trust.signer('space').getPublicKey()]);
  expect(nats.imports).toBeUndefined();
  expect(nats.exports).toBeUndefined();
  expect(nats.limits).toMatchObject({ imports: 0, exports: 0, disk_storage: 1_000, streams: -1 });
});

test('revocations add up, belong to one account, and end with the token they are about', async () => {
  const store = new TrustStore(root);
  const trust = await store.create('main');
  const [a, b, old] = [1, 2, 3].map(() => createUser().getPublicKey()) as [string, string, string];
  trust.revoke('space', a, Date.now() + 60_000);
  store.open('main').revoke('space', b, Date.now() + 60_000);
  trust.revoke('space', b, Date.now() + 60_000);
  trust.revoke('space', old, Date.now() - 60_000);
  expect(Object.keys((await claimsOf(trust, 'space')).nats.revocations ?? {}).sort()).toEqual(
    [a, b].sort(),
  );
  expect(trust.revocations('vault')).toEqual({});
});

test('an unreadable revocation is an error: ignoring it would let the credential in again', async () => {
  const trust = await new TrustStore(root).create('main');
  const key = createUser().getPublicKey();
  trust.revoke('space', key, Date.now() + 60_000);
  writeFileSync(`${spacePaths(root, 'main').revokedFolder}/${key}`, '{');
  expect(() => trust.revocations('space')).toThrow(
    expect.objectContaining({ code: 'credential-unreadable' }),
  );
});
