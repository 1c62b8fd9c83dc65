import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import path from 'node:path';
import {
  type BrokerRecord,
  findBroker,
  type LocatedBroker,
  locateBroker,
  type RunningBroker,
  type StartOptions,
  startBroker,
  stopBroker,
  stopProcess,
  writePidRecord,
} from '@plane3/broker';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { script, tempDir } from './support/fakes.ts';
import { brokerConfig, isAlive, sleeper } from './support/processes.ts';

let temp: ReturnType<typeof tempDir>;
let located: LocatedBroker;
let started: RunningBroker[];
beforeEach(async () => {
  temp = tempDir();
  started = [];
  located = await locateBroker();
});
afterEach(async () => {
  for (const b of started) await stopProcess(b.record, { graceMs: 1_000 });
  temp.remove();
});

const at = (name: string): string => path.join(temp.dir, name);

const options = (o: Partial<StartOptions> = {}): StartOptions => ({
  bin: located.bin,
  configFile: brokerConfig(temp.dir),
  recordFile: at('broker.pid'),
  output: { kind: 'detached', logFile: at('broker.log') },
  listen: { host: '127.0.0.1', port: -1 },
  ...o,
});

async function start(o: Partial<StartOptions> = {}): Promise<RunningBroker> {
  const b = await startBroker(options(o));
  started.push(b);
  // The next run ends it by this, should this one die.
  writeFileSync(at('pid'), String(b.record.pid));
  return b;
}

async function greeting(port: number): Promise<string> {
  const socket = connect(port, '127.0.0.1');
  const [data] = (await once(socket, 'data')) as [Buffer];
  socket.destroy();
  return data.toString();
}

describe('starting', () => {
  it('answers when the broker greets on the port it picked, and records its identity', async () => {
    const { record } = await start();
    expect(await greeting(record.port)).toMatch(/^INFO \{/);
    expect(record).toMatchObject({ ready: true, listenHost: '127.0.0.1', bin: located.bin });
    expect(record.url).toBe(`nats://127.0.0.1:${record.port}`);
    expect(await findBroker(at('broker.pid'))).toEqual({ kind: 'running', record });
    expect(readFileSync(at('broker.log'), 'utf8')).toContain('Server is ready');
  });

  it('takes the port of the configuration when none is given', async () => {
    const { listen: _, ...asConfigured } = options();
    const b = await startBroker(asConfigured);
    started.push(b);
    expect(await greeting(b.record.port)).toMatch(/^INFO \{/);
  });

  it('hands out the lines of an attached broker and ends with a reason', async () => {
    const lines: string[] = [];
    const b = await start({ output: { kind: 'attached', onLine: (l) => lines.push(l) } });
    expect(await b.stop()).toBe('stopped');
    expect(await b.exited).toMatchObject({ signal: null });
    expect(lines.join('\n')).toContain('Server Exiting');
  });

  it('refuses a second start of the same record and names the first', async () => {
    const { record } = await start();
    await expect(startBroker(options())).rejects.toMatchObject({
      code: 'already-exists',
      context: { record },
    });
  });

  it('of two at once one starts and the other is told', async () => {
    const both = await Promise.allSettled([startBroker(options()), startBroker(options())]);
    const won = both.flatMap((b) => (b.status === 'fulfilled' ? [b.value] : []));
    started.push(...won);
    expect(won).toHaveLength(1);
    const lost = both.find((b) => b.status === 'rejected');
    expect(lost?.reason).toMatchObject({
      code: expect.stringMatching(/^(conflict|already-exists)$/),
    });
  });

  it('names who holds the port', async () => {
    const { record } = await start();
    const e = await startBroker(
      options({
        recordFile: at('other.pid'),
        listen: { host: '127.0.0.1', port: record.port },
      }),
    ).catch((x: unknown) => x);
    expect(e).toMatchObject({ code: 'port-in-use', exitCode: 1 });
    if (process.platform === 'linux')
      expect(e).toMatchObject({ context: { holder: { pid: record.pid } } });
    expect(await findBroker(at('other.pid'))).toEqual({ kind: 'absent' });
  });

  it.each(['detached', 'attached'] as const)(
    'ended before ready, %s: says so with its last lines and leaves nothing',
    async (kind) => {
      const configFile = at('bad.conf');
      writeFileSync(configFile, 'jetstream { nonsense: \n');
      const output = kind === 'detached' ? { kind, logFile: at('bad.log') } : { kind };
      const e = await startBroker(options({ configFile, output })).catch((x: unknown) => x);
      expect(e).toMatchObject({ code: 'broker-failed' });
      expect(String(e)).toContain('bad.conf');
      expect(await findBroker(at('broker.pid'))).toEqual({ kind: 'absent' });
    },
  );

  it('shows only the lines of this start, not of an earlier one in the same log', async () => {
    writeFileSync(at('broker.log'), 'an old line\n');
    const bin = script(temp.dir, 'echo a new line; exit 1', 'fails');
    const e = await startBroker(options({ bin })).catch((x: unknown) => x);
    expect(e).toMatchObject({ code: 'broker-failed', context: { lines: ['a new line'] } });
  });

  it('a program that cannot be started is a failure with its code', async () => {
    const e = await startBroker(options({ bin: at('nothing') })).catch((x: unknown) => x);
    expect(e).toMatchObject({ code: 'broker-failed', context: { spawnError: 'ENOENT' } });
  });

  it('one that never gets ready is ended again', async () => {
    const bin = script(temp.dir, `echo $$ > ${at('hung')}; exec sleep 60`, 'hangs');
    const e = await startBroker(options({ bin, readyTimeoutMs: 300 })).catch((x: unknown) => x);
    expect(e).toMatchObject({ code: 'timed-out' });
    expect(isAlive(Number(readFileSync(at('hung'), 'utf8')))).toBe(false);
    expect(await findBroker(at('broker.pid'))).toEqual({ kind: 'absent' });
  });
});

describe('records that are not what they say', () => {
  it('after kill -9 the record is stale and the next start replaces it on the same store', async () => {
    const first = await start();
    process.kill(first.record.pid, 'SIGKILL');
    await first.exited;
    expect((await findBroker(at('broker.pid'))).kind).toBe('stale');
    const second = await start();
    expect(second.record.pid).not.toBe(first.record.pid);
    expect((await findBroker(at('broker.pid'))).kind).toBe('running');
  });

  it('a record whose pid belongs to another process is stale; that process is left alone', async () => {
    const s = await sleeper();
    const { record } = await start();
    await stopProcess(record);
    const forged: BrokerRecord = { ...record, pid: s.identity.pid };
    await writePidRecord(at('broker.pid'), forged);
    expect((await findBroker(at('broker.pid'))).kind).toBe('stale');
    expect(await stopBroker(at('broker.pid'))).toBe('was-gone');
    await writePidRecord(at('broker.pid'), forged);
    await start();
    expect(isAlive(s.identity.pid)).toBe(true);
    await s.end();
  });

  it('a broker whose starter was killed before it was ready is ended, not doubled', async () => {
    const first = await start();
    await writePidRecord(at('broker.pid'), { ...first.record, ready: false });
    const second = await start();
    expect(isAlive(second.record.pid)).toBe(true);
    expect(isAlive(first.record.pid)).toBe(false);
  });

  it('a file that is no record is refused, never removed', async () => {
    writeFileSync(at('broker.pid'), '4711\n');
    await expect(startBroker(options())).rejects.toMatchObject({ code: 'not-ours' });
    await expect(stopBroker(at('broker.pid'))).rejects.toMatchObject({ code: 'not-ours' });
    expect(readFileSync(at('broker.pid'), 'utf8')).toBe('4711\n');
  });
});

it('stop is idempotent and leaves no record', async () => {
  const { record } = await start();
  expect(await stopBroker(at('broker.pid'))).toBe('stopped');
  expect(isAlive(record.pid)).toBe(false);
  expect(await stopBroker(at('broker.pid'))).toBe('was-gone');
  expect(await findBroker(at('broker.pid'))).toEqual({ kind: 'absent' });
});
