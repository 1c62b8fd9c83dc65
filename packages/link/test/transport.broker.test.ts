import { createServer, type Server } from 'node:net';
import { openLink, type Transport } from '@plane3/link';
import { eventually } from '@plane3/testkit';
import { expect, test } from 'vitest';
import { makeCertificates } from './support/certificates.ts';
import { later } from './support/cleanup.ts';
import { link, mesh, relayTo } from './support/links.ts';

const certificates = makeCertificates();
const serverTls = (extra = '') =>
  `tls: { cert_file: "${certificates.certFile}", key_file: "${certificates.keyFile}", ${extra} }`;

/** Greets in clear like a broker and keeps what is said to it. */
async function standIn(info: Record<string, unknown>): Promise<{ port: number; heard: string[] }> {
  const heard: string[] = [];
  const server: Server = createServer((socket) => {
    socket.on('error', () => {});
    socket.on('data', (d) => heard.push(d.toString('latin1')));
    const about = { server_id: 'x', version: '2.14.0', proto: 1, headers: true };
    const limits = { max_payload: 1e6, nonce: 'abc' };
    socket.write(`INFO ${JSON.stringify({ ...about, ...limits, ...info })}\r\n`);
  });
  await new Promise<void>((ok) => server.listen(0, '127.0.0.1', ok));
  later(server, (s) => s.close());
  return { port: (server.address() as { port: number }).port, heard };
}

const attempt = (
  port: number,
  transport: Transport,
  credentials: () => Uint8Array,
  connectTimeoutMs = 2_000,
) =>
  openLink({
    name: 't',
    servers: [`localhost:${port}`],
    transport,
    credentials,
    connectTimeoutMs,
  });

test('TLS is served with the right authority, through a reconnect too', async () => {
  const m = await mesh({ extra: serverTls() });
  const { creds, token } = await m.mint();
  const relay = await relayTo(m.nats.port);
  const l = await link(`localhost:${relay.port}`, {
    transport: { kind: 'tls', caFile: certificates.caFile },
    credentials: () => creds,
  });
  await m.nats.restart();
  await eventually(() => l.generation === 2 && l.connected);
  expect(relay.captured('toServer')).not.toContain(token);
});

test('TLS before the greeting is served where the record says so', async () => {
  const m = await mesh({ extra: serverTls('handshake_first: true') });
  const { creds } = await m.mint();
  const l = await link(`localhost:${m.nats.port}`, {
    transport: { kind: 'tls', caFile: certificates.caFile, handshakeFirst: true },
    credentials: () => creds,
  });
  expect(l.connected).toBe(true);
});

test.each([
  ['that offers no TLS', {}],
  ['that lies about TLS', { tls_required: true }],
  ['that offers TLS', { tls_available: true }],
])('a listener %s gets no credential byte when TLS is demanded', async (_, info) => {
  const fake = await standIn(info);
  const m = await mesh();
  const { creds, token } = await m.mint();
  const tls: Transport = { kind: 'tls', caFile: certificates.caFile };
  const beganMs = performance.now();
  await expect(attempt(fake.port, tls, () => creds)).rejects.toMatchObject({
    code: expect.stringMatching(/^(transport-refused|broker-unreachable)$/),
  });
  expect(performance.now() - beganMs).toBeLessThan(5_000);
  expect(fake.heard.join('')).not.toMatch(/CONNECT|jwt|sig/);
  expect(fake.heard.join('')).not.toContain(token);
});

test('a listener in clear behind a reconnect gets nothing either', async () => {
  const m = await mesh({ extra: serverTls() });
  const { creds } = await m.mint();
  const relay = await relayTo(m.nats.port);
  const l = await link(`localhost:${relay.port}`, {
    transport: { kind: 'tls', caFile: certificates.caFile },
    credentials: () => creds,
  });
  await relay.stop();
  const heard: string[] = [];
  let dials = 0;
  const server = createServer((socket) => {
    dials++;
    socket.on('error', () => {});
    socket.on('data', (d) => heard.push(d.toString('latin1')));
    socket.write(
      'INFO {"server_id":"x","version":"2.14.0","proto":1,"nonce":"abc","max_payload":1000}\r\n',
    );
  });
  later(server, (s) => s.close());
  await new Promise<void>((ok) => server.listen(relay.port, '127.0.0.1', ok));
  await eventually(() => dials >= 3);
  expect(heard).toEqual([]);
  expect(l.connected).toBe(false);
});

test('a wrong authority and a wrong host name are refused by their check', async () => {
  const m = await mesh({ extra: serverTls() });
  const { creds } = await m.mint();
  const other = makeCertificates();
  const cases: [Transport, string][] = [
    [{ kind: 'tls', caFile: other.caFile }, 'UNABLE_TO|CERT'],
    [{ kind: 'tls', caFile: certificates.caFile, serverName: 'elsewhere' }, 'ALTNAME'],
    [{ kind: 'tls' }, 'UNABLE_TO|SELF_SIGNED|CERT'],
  ];
  for (const [transport, reason] of cases)
    await expect(attempt(m.nats.port, transport, () => creds)).rejects.toMatchObject({
      code: 'transport-refused',
      message: expect.stringMatching(reason),
    });
});

test('a broker that demands TLS is refused by a record that says plain', async () => {
  const m = await mesh({ extra: serverTls() });
  const { creds, token } = await m.mint();
  const relay = await relayTo(m.nats.port);
  await expect(attempt(relay.port, { kind: 'plain' }, () => creds)).rejects.toMatchObject({
    code: 'transport-refused',
  });
  expect(relay.captured('toServer')).not.toContain(token);
});

test('TLS before and after the greeting do not match, and end in bounded time', async () => {
  const before = await mesh({ extra: serverTls('handshake_first: true') });
  const after = await mesh({ extra: serverTls() });
  const { creds } = await before.mint();
  const tls = { kind: 'tls', caFile: certificates.caFile } as const;
  await expect(attempt(before.nats.port, tls, () => creds, 5_000)).rejects.toMatchObject({
    code: 'transport-refused', // the broker gives a handshake 2 s
  });
  await expect(
    attempt(after.nats.port, { ...tls, handshakeFirst: true }, () => creds),
  ).rejects.toMatchObject({ code: 'transport-refused' });
});
