import { encodeUser, fmtCreds } from '@nats-io/jwt';
import { createUser } from '@nats-io/nkeys';
import { listingSubject } from '@plane3/observer-check';
import { jwtDecoder } from '@plane3/observer-check/nats';
import { expect, test } from 'vitest';
import { creds, newAccount, observerCreds } from './credentials.ts';

test('a credentials file says who signed it, for which account, until when and for what', async () => {
  const system = newAccount();
  const expiresAtMs = 1_900_000_000_000;
  const o = await jwtDecoder.decode(await observerCreds(system, 'AX', { expiresAtMs }));
  expect(o).toMatchObject({
    kind: 'done',
    value: {
      name: 'membership-observer',
      issuer: system.signer.getPublicKey(),
      account: system.key,
      expiresAtMs,
      validFromMs: undefined,
      publish: { allow: [listingSubject('AX')], deny: [] },
    },
  });
});

test('a token with the key of another user is none', async () => {
  const account = newAccount();
  const jwt = await encodeUser('u', createUser(), account.root, {}, { signer: account.signer });
  expect(await jwtDecoder.decode(fmtCreds(jwt, createUser()))).toMatchObject({
    kind: 'refused',
    reason: 'undecodable',
    detail: 'its key is not the one of its token',
  });
});

test('empty, cut off and huge files are none, and nothing of them is in the reason', async () => {
  const good = await creds(newAccount());
  const text = new TextDecoder().decode(good);
  const seed = /SU[A-Z0-9]{50,}/.exec(text)?.[0] ?? 'SU';
  for (const bytes of [
    new Uint8Array(),
    good.subarray(0, good.length / 2),
    new Uint8Array(100_000).fill(45),
    new TextEncoder().encode(text.replace(seed, `${seed.slice(0, -1)}!`)),
    new TextEncoder().encode(seed),
  ]) {
    const o = await jwtDecoder.decode(bytes);
    expect(o.kind).toBe('refused');
    expect(JSON.stringify(o)).not.toContain(seed.slice(0, 10));
  }
});
