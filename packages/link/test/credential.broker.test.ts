import { credentialFacts, openLink } from '@plane3/link';
import { Plane3Error } from '@plane3/protocol';
import { eventually } from '@plane3/testkit';
import { expect, test } from 'vitest';
import { link, mesh, relayTo, watched } from './support/links.ts';

const plain = { kind: 'plain' } as const;
const open = (url: string, credentials: () => Uint8Array) =>
  openLink({ name: 't', servers: [url], transport: plain, credentials });

test('the credential is read at every connect', async () => {
  const m = await mesh();
  const { creds } = await m.mint();
  let reads = 0;
  const l = await link(m.nats.url, {
    credentials: () => {
      reads++;
      return creds;
    },
  });
  const before = reads;
  await m.nats.restart();
  await eventually(() => l.generation === 2);
  expect(reads).toBeGreaterThan(before);
});

test('a refused credential fails the first connect at once, with its reason', async () => {
  const m = await mesh();
  const { creds } = await m.mint({ foreign: true });
  const beganMs = performance.now();
  await expect(open(m.nats.url, () => creds)).rejects.toMatchObject({ code: 'credential-refused' });
  expect(performance.now() - beganMs).toBeLessThan(2_000); // the timeout is 5 s
});

test('missing, unreadable and expired are three answers, and nothing is dialled', async () => {
  const m = await mesh();
  const relay = await relayTo(m.nats.url);
  const expired = await m.mint({ expiresInS: -5 });
  const missing = () => {
    throw new Plane3Error('credential-missing', { detail: 'file' });
  };
  const cases: [string, () => Uint8Array][] = [
    ['credential-missing', missing],
    ['credential-unreadable', () => new Uint8Array(0)],
    ['credential-unreadable', () => new TextEncoder().encode('nonsense')],
    ['credential-expired', () => expired.creds],
  ];
  for (const [code, source] of cases)
    await expect(open(relay.url, source)).rejects.toMatchObject({ code });
  expect(relay.accepted).toBe(0);
});

test('an expired credential never gets on the wire, a renewed one brings it back', async () => {
  const m = await mesh();
  const relay = await relayTo(m.nats.url);
  const first = await m.mint({ expiresInS: 3 });
  let current = first.creds;
  let reads = 0;
  const { link: l, kinds } = await watched(relay.url, {
    credentials: () => {
      reads++;
      return current;
    },
  });
  expect(relay.captured('toServer')).toContain(first.token);
  await eventually(() => kinds().includes('credential-unavailable')); // the broker cut it at expiry
  const sentBefore = relay.captured('toServer').length;
  const readsBefore = reads;
  const acceptedBefore = relay.accepted;
  await eventually(() => relay.accepted >= acceptedBefore + 2);
  expect(relay.captured('toServer').length).toBe(sentBefore); // dialled, and not a byte said
  expect(reads - readsBefore).toBeLessThan(10);
  expect(l.connected).toBe(false);
  expect(l.nc.isClosed()).toBe(false);
  const renewed = await m.mint({ seed: first.seed });
  current = renewed.creds;
  await eventually(() => l.connected, { timeoutMs: 15_000 });
  expect(relay.captured('toServer').slice(sentBefore)).toContain(renewed.token);
  expect(m.nats.lines.filter((x) => /authentication error/i.test(x))).toEqual([]);
  expect(kinds().filter((k) => k === 'credential-unavailable')).toHaveLength(1);
});

test('a source that fails or gives another user is retried until it recovers', async () => {
  const m = await mesh();
  const { creds } = await m.mint();
  const stranger = await m.mint();
  let source = (): Uint8Array => creds;
  const { link: l, events } = await watched(m.nats.url, { credentials: () => source() });
  const unavailable = () => events.filter((e) => e.kind === 'credential-unavailable');
  source = () => {
    throw new Error('disk');
  };
  await m.nats.restart();
  await eventually(() => unavailable().length === 1);
  source = () => stranger.creds;
  await eventually(() => unavailable().length === 2);
  expect(unavailable()[1]?.detail).toContain('another user');
  expect(l.connected).toBe(false);
  source = () => creds;
  await eventually(() => l.connected, { timeoutMs: 15_000 });
});

test('a credential that is refused on a reconnect is retried with back-off', async () => {
  const m = await mesh();
  const good = await m.mint();
  const bad = await m.mint({ seed: good.seed, foreign: true });
  let current = good.creds;
  const { link: l, kinds } = await watched(m.nats.url, { credentials: () => current });
  current = bad.creds;
  await m.nats.restart();
  const refusals = () => m.nats.lines.filter((x) => /authentication error/i.test(x)).length;
  await eventually(() => refusals() >= 3); // the client by itself closes after two
  expect(kinds().filter((k) => k === 'credential-refused')).toHaveLength(1);
  expect(l.nc.isClosed()).toBe(false);
  current = good.creds;
  await eventually(() => l.connected, { timeoutMs: 15_000 });
});

test('a link that is closed while no credential can be had stays closed', async () => {
  const m = await mesh();
  const { creds } = await m.mint();
  let usable = true;
  const { link: l, kinds } = await watched(m.nats.url, {
    credentials: () => {
      if (!usable) throw new Plane3Error('credential-missing');
      return creds;
    },
  });
  usable = false;
  await m.nats.restart();
  await eventually(() => kinds().includes('credential-unavailable'));
  await l.close();
  usable = true;
  expect(kinds().at(-1)).toBe('closed');
  expect(l.nc.isClosed()).toBe(true);
});

test('a credentials file tells whose it is and when it ends', async () => {
  const m = await mesh();
  const { creds, userKey } = await m.mint({ expiresInS: 100 });
  const facts = await credentialFacts(creds);
  expect(facts).toMatchObject({ userKey, name: 'u' });
  expect(facts.expiresAtMs).toBeGreaterThan(Date.now());
  await expect(credentialFacts(new Uint8Array(3))).rejects.toThrow();
});
