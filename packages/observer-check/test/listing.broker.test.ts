import { type Link, openLink } from '@plane3/link';
import { type ConnectionListing, listingSubject } from '@plane3/observer-check';
import { MemorySecrets } from '@plane3/observer-check/memory';
import { checkObserver, NatsConnectionListing } from '@plane3/observer-check/nats';
import { type NatsProc, startNats } from '@plane3/testkit';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  creds,
  evictorCreds,
  newAccount,
  observerCreds,
  operatorConfig,
  type TestAccount,
} from './credentials.ts';

let nats: NatsProc;
let system: TestAccount;
let own: TestAccount;
let other: TestAccount;
const links: Link[] = [];

beforeAll(async () => {
  [system, own, other] = [newAccount(), newAccount(), newAccount()];
  nats = await startNats({ jetstream: false, config: await operatorConfig(system, [own, other]) });
});
afterAll(async () => {
  for (const l of links) await l.close();
  await nats.stop();
});

async function link(bytes: Uint8Array): Promise<Link> {
  const l = await openLink({
    name: 'test',
    servers: [nats.url],
    transport: { kind: 'plain' },
    credentials: () => bytes,
  });
  links.push(l);
  return l;
}

const listing = async (bytes: Uint8Array, account: string): Promise<ConnectionListing> =>
  new NatsConnectionListing({ link: await link(bytes), account });

test('an admitted observer lists the connections of its own account, and of it alone', async () => {
  const bytes = await observerCreds(system, own.key);
  const secrets = new MemorySecrets({
    'membership-observer': bytes,
    'connection-evictor': await evictorCreds(system),
  });
  const verdict = await checkObserver({ secrets, daemonAccount: own.key, nowMs: Date.now() });
  expect(verdict).toMatchObject({ ok: true, evictor: 'present', observer: { account: own.key } });

  const mine = await link(await creds(own, { publish: ['x'] }));
  const theirs = await link(await creds(other, { publish: ['x'] }));
  const page = await (await listing(bytes, own.key)).page(0, 100);
  if (page.kind !== 'done') throw new Error(JSON.stringify(page));
  expect(page.value).toHaveLength(1);
  const keys = page.value.flatMap((p) => p.connections.map((c) => c.userKey));
  expect(keys).toEqual([mine.userKey]);
  expect(keys).not.toContain(theirs.userKey);
  expect(page.value[0]).toMatchObject({ total: 1, offset: 0 });
});

test('S155: a credential without the right is refused by name, not by silence', async () => {
  const bytes = await creds(system, { publish: ['elsewhere'] });
  const from = performance.now();
  const page = await (await listing(bytes, own.key)).page(0, 100);
  expect(page).toEqual({
    kind: 'refused',
    reason: 'permission-denied',
    detail: listingSubject(own.key),
  });
  expect(performance.now() - from).toBeLessThan(2_000);
});

test('the broker refuses a foreign observer too, which the check refused', async () => {
  const bytes = await observerCreds(system, other.key);
  const secrets = new MemorySecrets({ 'membership-observer': bytes });
  const verdict = await checkObserver({ secrets, daemonAccount: own.key, nowMs: Date.now() });
  expect(verdict).toMatchObject({ ok: false, code: 'observer-foreign' });
  expect(await (await listing(bytes, own.key)).page(0, 100)).toMatchObject({
    reason: 'permission-denied',
  });
});

test('a page behind the end says how many there are', async () => {
  const page = await (await listing(await observerCreds(system, other.key), other.key)).page(
    50,
    10,
  );
  if (page.kind !== 'done') throw new Error(JSON.stringify(page));
  expect(page.value[0]?.connections).toEqual([]);
  expect(page.value[0]?.total).toBeGreaterThanOrEqual(1);
});
