import { rmSync } from 'node:fs';
import { parseCreds } from '@nats-io/jwt';
import { isUid, spaceNames } from '@plane3/protocol';
import { mint, newUid, newUserKey, type Trust, TrustStore } from '@plane3/space';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { newRoot } from './support/broker.ts';

const names = spaceNames('main');
let root = '';
let trust: Trust;
beforeAll(async () => {
  root = newRoot();
  trust = await new TrustStore(root).create('main');
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

test('a uid is 26 characters, never the same twice, and uses its whole alphabet', () => {
  const all = Array.from({ length: 500 }, newUid);
  expect(all.every(isUid)).toBe(true);
  expect(new Set(all).size).toBe(500);
  expect(new Set(all.join('')).size).toBe(36);
});

test('a credential bears its identity, its end, and the account that it is for', async () => {
  const userKey = newUserKey();
  const lifecycle = { owner: 'local', actor: 'Alice', uid: newUid() };
  const beforeMs = Date.now();
  const args = { allowSubscribe: ['team'], allowPublish: ['team'] };
  const m = await mint({
    trust,
    names,
    profile: 'agent',
    args,
    lifecycle,
    userKey,
    lifetimeMs: 60_000,
  });
  const { uc, aid, key } = await parseCreds(new TextEncoder().encode(m.creds));
  expect(m.userKey).toBe(userKey.publicKey);
  expect(key).toBe(userKey.seed);
  expect(uc.sub).toBe(userKey.publicKey);
  expect(aid).toBe(trust.accountKey('space'));
  expect(uc.iss).toBe(trust.signer('space').getPublicKey());
  expect(uc.nats.bearer_token).toBe(false);
  expect(uc.nats.tags).toEqual([
    'owner:local',
    'actor:Alice',
    'principal:local.Alice',
    `uid:${lifecycle.uid}`,
  ]);
  expect((uc.exp ?? 0) * 1000).toBe(m.expiresAtMs);
  expect(m.expiresAtMs).toBeGreaterThan(beforeMs + 58_000);
  expect(m.expiresAtMs).toBeLessThanOrEqual(Date.now() + 60_000);
});

test('a token too long for one control line is refused', async () => {
  const args = {
    allowSubscribe: Array.from({ length: 400 }, (_, i) => `team.channel-number-${i}`),
    allowPublish: [],
  };
  await expect(mint({ trust, names, profile: 'agent', args })).rejects.toMatchObject({
    code: 'settings-invalid',
  });
});

test('what is no lifecycle is not minted', async () => {
  const lifecycle = { owner: 'local', actor: 'a.b', uid: newUid() };
  await expect(
    mint({ trust, names, profile: 'delivery', args: {}, lifecycle }),
  ).rejects.toMatchObject({
    code: 'settings-invalid',
  });
});
