import { openLink } from '@plane3/link';
import { eventually } from '@plane3/testkit';
import { expect, test } from 'vitest';
import { broker, link, mesh, relayTo, text, utf8, watched } from './support/links.ts';

test('an accepted subscription receives, and survives a kill of the broker', async () => {
  const nats = await broker();
  const { link: l, kinds } = await watched(nats.url);
  const got: string[] = [];
  const outcome = await l.subscribe('a.*', (m) => got.push(text(m.data)));
  expect(outcome).toMatchObject({ kind: 'done', value: { subject: 'a.*', active: true } });
  l.publish('a.b', utf8('1'));
  await eventually(() => got.length === 1);
  await nats.restart();
  await eventually(() => l.generation === 2 && l.connected);
  l.publish('a.b', utf8('2'));
  await eventually(() => got.length === 2);
  expect(kinds()).toEqual(['connected', 'disconnected', 'reconnected']);
});

test('a denied subscription is refused, with and without a queue', async () => {
  const m = await mesh();
  const { creds, userKey } = await m.mint({ sub: ['ok', `_INBOX_x.>`] });
  const l = await link(m.nats.url, { credentials: () => creds });
  expect(l.userKey).toBe(userKey);
  expect(l.inboxPrefix).toBe(`_INBOX_${userKey}`);
  expect(await l.subscribe('no', () => {})).toMatchObject({
    kind: 'refused',
    reason: 'permission-denied',
  });
  expect(await l.subscribe('no', () => {}, { queue: 'q' })).toMatchObject({ kind: 'refused' });
  expect(await l.subscribe('ok', () => {})).toMatchObject({ kind: 'done' });
  expect(l.connected).toBe(true);
});

test('a denied publish reaches onDenied and the events', async () => {
  const m = await mesh();
  const { creds } = await m.mint({ pub: ['ok'] });
  const { link: l, events } = await watched(m.nats.url, { credentials: () => creds });
  const denials: unknown[] = [];
  const stop = l.onDenied((d) => denials.push(d));
  l.publish('no', utf8(''));
  await eventually(() => denials.length === 1);
  expect(denials).toEqual([{ operation: 'publish', subject: 'no' }]);
  expect(events.at(-1)).toMatchObject({ kind: 'permission-denied', denial: { subject: 'no' } });
  stop();
  l.publish('no', utf8(''));
  await eventually(() => events.length === 3);
  expect(denials).toHaveLength(1);
});

test('a handler or listener that throws is an event and does not make the link deaf', async () => {
  const nats = await broker();
  const { link: l, kinds, events } = await watched(nats.url);
  l.onEvent(() => {
    throw new Error('listener');
  });
  let got = 0;
  await l.subscribe('a', () => {
    got++;
    throw new Error('handler');
  });
  l.publish('a', utf8(''));
  l.publish('a', utf8(''));
  await eventually(() => got === 2);
  expect(kinds().filter((k) => k === 'handler-failed').length).toBeGreaterThanOrEqual(2);
  expect(events.at(-1)?.detail).toContain('handler');
});

test('while disconnected a publish throws and flush and subscribe are unknown', async () => {
  const nats = await broker();
  const l = await link(nats.url);
  await nats.kill();
  await eventually(() => !l.connected);
  expect(() => l.publish('a', utf8(''))).toThrowError(
    expect.objectContaining({ code: 'broker-unreachable' }),
  );
  expect(await l.flush()).toMatchObject({ kind: 'unknown' });
  expect(await l.subscribe('a', () => {})).toMatchObject({ kind: 'unknown' });
});

test('a flush or subscription on a stalled connection is unknown in bounded time', async () => {
  const nats = await broker();
  const relay = await relayTo(nats.url);
  const l = await link(relay.url);
  relay.hold();
  expect(await l.flush(100)).toEqual({ kind: 'unknown', cause: 'timeout' });
  expect(await l.subscribe('a', () => {})).toEqual({ kind: 'unknown', cause: 'timeout' });
});

test('a connection that has gone silent is given up after two unanswered pings', async () => {
  const nats = await broker();
  const relay = await relayTo(nats.url);
  const { link: l, kinds } = await watched(relay.url, {
    pingIntervalMs: 100,
    connectTimeoutMs: 1_000,
  });
  relay.hold();
  await eventually(() => kinds().includes('disconnected'));
  expect(l.connected).toBe(false);
  relay.release();
  await eventually(() => l.connected);
});

test('no broker, or one that says nothing, fails the first connect in bounded time', async () => {
  const nats = await broker();
  const relay = await relayTo(nats.url);
  relay.hold();
  const attempt = (servers: string[]) =>
    openLink({ name: 't', servers, transport: { kind: 'plain' }, connectTimeoutMs: 200 });
  await expect(attempt([relay.url])).rejects.toMatchObject({ code: 'broker-unreachable' });
  relay.release();
  relay.refuse(true); // accepts and closes
  await expect(attempt([relay.url])).rejects.toMatchObject({ code: 'broker-unreachable' });
  await nats.kill();
  await expect(attempt([nats.url])).rejects.toMatchObject({ code: 'broker-unreachable' });
});

test('a link that is being closed refuses in our words, at once, whatever still runs on it', async () => {
  const l = await link((await broker()).url);
  const closed = l.close();
  expect(l.connected).toBe(false);
  expect(() => l.publish('a', utf8('1'))).toThrow(
    expect.objectContaining({ code: 'broker-unreachable' }),
  );
  expect(await l.subscribe('a', () => {})).toMatchObject({ kind: 'unknown' });
  expect(await l.flush()).toMatchObject({ kind: 'unknown' });
  await closed;
  expect(() => l.publish('a', utf8('1'))).toThrow(
    expect.objectContaining({ code: 'broker-unreachable' }),
  );
});

test('a link closed while connected, away or dialling stays closed', async () => {
  const nats = await broker();
  const relay = await relayTo(nats.url);
  for (const moment of ['connected', 'away', 'dialling'] as const) {
    const l = await link(relay.url, { connectTimeoutMs: 5_000 });
    if (moment === 'away') {
      relay.refuse(true);
      relay.cut();
      await eventually(() => !l.connected);
    } else if (moment === 'dialling') {
      relay.hold();
      const { accepted } = relay;
      relay.cut();
      await eventually(() => relay.accepted > accepted);
    }
    await l.close();
    relay.refuse(false);
    relay.release();
    const probe = await link(nats.url);
    await probe.flush();
    await eventually(() => relay.connections === 0, { timeoutMs: 3_000 });
    const { accepted } = relay;
    await new Promise((ok) => setTimeout(ok, 300)); // more than a reconnect delay
    expect(relay.accepted, moment).toBe(accepted);
    expect(l.connected).toBe(false);
  }
});
