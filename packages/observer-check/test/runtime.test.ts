import { admitObserver, SECRET_READ_MS_MAX, type SecretSource } from '@plane3/observer-check';
import { MemorySecrets } from '@plane3/observer-check/memory';
import { jwtDecoder } from '@plane3/observer-check/nats';
import { expect, test } from 'vitest';
import { newAccount, observerCreds } from './credentials.ts';

const NOW_MS = 1_800_000_000_000;
const question = { decoder: jwtDecoder, nowMs: NOW_MS };

test('a store that never answers is a refusal after its bound, not a hang and not an absence', async () => {
  let askedForMs = 0;
  const secrets: SecretSource = {
    read: () => new Promise(() => {}),
    where: (name) => `hosted: ${name}`,
  };
  const timers = {
    after: (ms: number, f: () => void) => {
      askedForMs = ms;
      queueMicrotask(f);
      return () => {};
    },
  };
  const a = await admitObserver({ ...question, secrets, timers, daemonAccount: 'AOWN' });
  expect(a).toMatchObject({ ok: false, code: 'observer-unreadable' });
  expect(askedForMs).toBe(SECRET_READ_MS_MAX);
});

test('a store that throws is unreadable', async () => {
  const secrets: SecretSource = {
    read: async () => {
      throw new Error('broken store');
    },
    where: (name) => name,
  };
  const a = await admitObserver({ ...question, secrets, daemonAccount: 'AOWN' });
  expect(a).toMatchObject({ ok: false, code: 'observer-unreadable' });
});

test('an unanswered evictor does not count as an absent one', async () => {
  const own = newAccount().key;
  const secrets = new MemorySecrets({
    'membership-observer': await observerCreds(newAccount(), own),
    'connection-evictor': 'unanswered',
  });
  const a = await admitObserver({ ...question, secrets, daemonAccount: own });
  expect(a).toMatchObject({ ok: false, code: 'observer-unreadable' });
});
