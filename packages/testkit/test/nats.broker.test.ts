import { connect } from 'node:net';
import { eventually, type NatsProc, startNats, startRelay } from '@plane3/testkit';
import { afterEach, expect, test } from 'vitest';

const servers: NatsProc[] = [];
async function start(...args: Parameters<typeof startNats>): Promise<NatsProc> {
  const nats = await startNats(...args);
  servers.push(nats);
  return nats;
}
afterEach(async () => {
  for (const nats of servers.splice(0)) await nats.stop();
});

/** Sends raw protocol and gives what came back once it matches. */
async function talk(port: number, send: string, until: RegExp, timeoutMs = 5_000): Promise<string> {
  const socket = connect(port, '127.0.0.1');
  let got = '';
  socket.setEncoding('latin1').on('data', (d) => {
    got += d;
  });
  socket.on('error', () => {});
  socket.write(send);
  try {
    return await eventually(() => (until.test(got) ? got : undefined), { timeoutMs });
  } finally {
    socket.destroy();
  }
}

test('a broker is ready at once, and a restart keeps its port and store', async () => {
  const nats = await start();
  expect(await talk(nats.port, 'CONNECT {}\r\nPING\r\n', /PONG/)).toMatch(/^INFO /);
  const { port, pid, store } = nats;
  await nats.restart();
  expect(nats).toMatchObject({ port, store });
  expect(nats.pid).not.toBe(pid);
  expect(await talk(port, 'CONNECT {}\r\nPING\r\n', /PONG/)).toMatch(/^INFO /);
});

test('a paused broker accepts and says nothing until it is resumed', async () => {
  const nats = await start();
  nats.pause();
  await expect(talk(nats.port, '', /INFO/, 200)).rejects.toThrow();
  nats.resume();
  expect(await talk(nats.port, 'CONNECT {}\r\nPING\r\n', /PONG/)).toMatch(/PONG/);
});

test('a configuration is used, reloaded, and refused publishes show as violations', async () => {
  const user = (allow: string) =>
    `authorization { users = [{user: u, password: p, permissions: {publish: ["${allow}"]}}] }`;
  const nats = await start({ config: user('ok') });
  const attempt = 'CONNECT {"user":"u","pass":"p"}\r\nPUB no 0\r\n\r\nPING\r\n';
  expect(await talk(nats.port, attempt, /PONG/)).toMatch(/Permissions Violation/);
  await eventually(() => nats.violations().length === 1);
  await nats.reload(user('no'));
  expect(await talk(nats.port, attempt, /PONG/)).not.toMatch(/Permissions Violation/);
  expect(nats.violations()).toHaveLength(1);
});

test('a broker that cannot start is an error with its own words', async () => {
  await expect(startNats({ config: 'nonsense {' })).rejects.toThrow(/ended before it was ready/);
});

test('the relay holds, releases, drops, delays and cuts, each direction by itself', async () => {
  const nats = await start();
  const relay = await startRelay(nats.url);
  relay.hold('toClient');
  const held = talk(relay.port, 'CONNECT {}\r\nPING\r\n', /PONG/);
  await eventually(() => relay.captured('toServer').includes('PING'));
  expect(relay.captured('toClient')).toBe('');
  relay.release('toClient');
  expect(await held).toMatch(/^INFO /);
  relay.delay(150, 'toServer');
  const beganMs = performance.now();
  await talk(relay.port, 'CONNECT {}\r\nPING\r\n', /PONG/);
  expect(performance.now() - beganMs).toBeGreaterThan(140);
  relay.delay(0);
  relay.drop('toServer');
  const { accepted } = relay;
  const socket = connect(relay.port, '127.0.0.1');
  socket.write('CONNECT {}\r\nPING\r\n');
  socket.on('error', () => {});
  const closed = new Promise<void>((ok) => socket.on('close', () => ok()));
  socket.resume();
  await eventually(() => relay.accepted === accepted + 1);
  relay.cut();
  await closed;
  await eventually(() => relay.connections === 0);
  relay.refuse(true);
  await expect(talk(relay.port, '', /INFO/, 200)).rejects.toThrow();
  await relay.stop();
});
