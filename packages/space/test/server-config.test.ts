import { rmSync } from 'node:fs';
import { serverConfig, spacePaths, type Trust, TrustStore } from '@plane3/space';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { newRoot } from './support/broker.ts';

let root = '';
let trust: Trust;
beforeAll(async () => {
  root = newRoot();
  trust = await new TrustStore(root).create('main');
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

test('an authenticated broker has the operator, a full resolver and every account preloaded', async () => {
  const text = await serverConfig(spacePaths(root, 'main'), trust, { port: 4222 });
  expect(text).toContain(`operator: "${trust.operatorJwt}"`);
  expect(text).toContain('type: full');
  for (const account of ['space', 'vault', 'system'] as const)
    expect(text).toContain(`${trust.accountKey(account)}: "ey`);
  expect(text).toContain('host: "127.0.0.1"');
  expect(text).toContain('max_control_line: 65536');
  expect(text).not.toMatch(/S[OAU][A-Z2-7]{50}/);
  expect(text).not.toContain('sync_interval');
});

test('the broker is told to take no call with fields that it does not know', async () => {
  const text = await serverConfig(spacePaths(root, 'main'), trust, { port: 4222 });
  expect(text).toMatch(/^ {2}strict: true$/m);
});

test('an open broker names no operator', async () => {
  const text = await serverConfig(spacePaths(root, 'main'), undefined, { port: 4222 });
  expect(text).not.toContain('operator');
});

test('sync always and TLS are written only when asked for', async () => {
  const tls = { certFile: '/c "d"\\e.pem', keyFile: '/k.pem', handshakeFirst: true };
  const text = await serverConfig(spacePaths(root, 'main'), undefined, {
    port: -1,
    sync: 'always',
    tls,
  });
  expect(text).toContain('sync_interval: always');
  expect(text).toContain('cert_file: "/c \\"d\\"\\\\e.pem"');
  expect(text).toContain('handshake_first: true');
});

test('a line break cannot smuggle a setting in', async () => {
  const tls = { certFile: '/c"\nport: 1', keyFile: '/k' };
  await expect(
    serverConfig(spacePaths(root, 'main'), undefined, { port: -1, tls }),
  ).rejects.toMatchObject({ code: 'settings-invalid' });
});
