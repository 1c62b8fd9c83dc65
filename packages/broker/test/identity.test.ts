import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import {
  identify,
  type ProcessIdentity,
  readPidFile,
  removePidRecord,
  stillRunning,
  stopProcess,
  takeStartLock,
  writePidRecord,
} from '@plane3/broker';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { tempDir } from './support/fakes.ts';
import { isAlive, sleeper } from './support/processes.ts';

let temp: ReturnType<typeof tempDir>;
beforeEach(() => {
  temp = tempDir();
});
afterEach(() => temp.remove());

const self = async (): Promise<ProcessIdentity> => {
  const id = await identify();
  if (id === undefined) return expect.fail('no identity');
  return id;
};

describe('a record is proved against the process, not against the pid', () => {
  it('knows itself', async () => {
    expect(await stillRunning(await self())).toBe('proved-ours');
  });

  it('proves with what a lease row keeps: pid, boot and start', async () => {
    const { pid, boot, start } = await self();
    expect(await stillRunning({ pid, boot, start })).toBe('proved-ours');
  });

  it('says gone after the process ended', async () => {
    const s = await sleeper();
    await s.end();
    expect(await stillRunning(s.identity)).toBe('gone');
    expect(await identify(s.identity.pid)).toBeUndefined();
  });

  it('says other-process when the pid was given to another one', async () => {
    const s = await sleeper();
    const forged = { ...s.identity, start: String(Number(s.identity.start) - 1000) };
    expect(await stillRunning(forged)).toBe('other-process');
    expect(await stillRunning({ ...s.identity, executable: '/bin/other' })).toBe('other-process');
    await s.end();
  });

  it('says gone for an earlier boot of this host, and nothing about another host', async () => {
    const id = await self();
    const old = { ...id, boot: `00000000-0000-0000-0000-000000000000/${id.boot.split('/')[1]}` };
    expect(await stillRunning(old)).toBe('gone');
    expect(await stillRunning({ ...old, host: 'elsewhere' })).toBe('unprovable');
    const { host: _, ...lease } = old;
    expect(await stillRunning(lease)).toBe('unprovable');
  });

  it('says nothing about another pid namespace of the same boot', async () => {
    const id = await self();
    const boot = `${id.boot.split('/')[0]}/1`;
    expect(await stillRunning({ ...id, boot })).toBe('unprovable');
  });
});

describe('stopping', () => {
  it('asks first, and is idempotent', async () => {
    const s = await sleeper();
    const gone = once(s.child, 'exit');
    expect(await stopProcess(s.identity)).toBe('stopped');
    expect((await gone)[1]).toBe('SIGTERM');
    expect(await stopProcess(s.identity)).toBe('was-gone');
  });

  it('kills what does not answer within the grace', async () => {
    const s = await sleeper();
    // A stopped process cannot take SIGTERM; SIGKILL works on it.
    s.child.kill('SIGSTOP');
    expect(await stopProcess(s.identity, { graceMs: 50 })).toBe('killed');
    await s.end();
  });

  it('never signals a process that has the pid by now', async () => {
    const s = await sleeper();
    const forged = { ...s.identity, start: '1' };
    expect(await stopProcess(forged)).toBe('was-gone');
    expect(isAlive(s.identity.pid)).toBe(true);
    await s.end();
  });

  it('never signals what it cannot prove', async () => {
    const s = await sleeper();
    const foreign = { ...s.identity, boot: 'other/1', host: 'elsewhere' };
    await expect(stopProcess(foreign)).rejects.toMatchObject({ code: 'not-ours' });
    expect(isAlive(s.identity.pid)).toBe(true);
    await s.end();
  });
});

describe('pid records', () => {
  it('is absent, ours and running, or something else', async () => {
    const file = path.join(temp.dir, 'a.pid');
    expect(await readPidFile(file)).toEqual({ kind: 'absent' });
    const record = { ...(await self()), extra: 1 };
    await writePidRecord(file, record);
    expect(await readPidFile(file)).toEqual({ kind: 'record', record, standing: 'proved-ours' });
    for (const text of [
      '',
      '4711',
      '{"pid":1',
      '{"pid":-1,"boot":"","start":"","executable":""}',
    ]) {
      writeFileSync(file, text);
      expect((await readPidFile(file)).kind).toBe('unreadable');
    }
  });

  it('is removed by its writer alone', async () => {
    const file = path.join(temp.dir, 'a.pid');
    const mine = await self();
    const theirs = { ...mine, pid: mine.pid + 1 };
    await writePidRecord(file, theirs);
    expect(await removePidRecord(file, mine)).toBe(false);
    expect(readFileSync(file, 'utf8')).toContain(`"pid":${theirs.pid}`);
    expect(await removePidRecord(file, theirs)).toBe(true);
    expect(await removePidRecord(file, theirs)).toBe(false);
  });
});

describe('the start lock', () => {
  it('is held by one, then free again', async () => {
    const file = path.join(temp.dir, 'l');
    const lock = await takeStartLock(file);
    await expect(takeStartLock(file)).rejects.toMatchObject({ code: 'conflict' });
    await lock.release();
    await (await takeStartLock(file)).release();
  });

  it('of many that want it at once exactly one gets it', async () => {
    const file = path.join(temp.dir, 'l');
    const got = await Promise.allSettled(Array.from({ length: 16 }, () => takeStartLock(file)));
    expect(got.filter((g) => g.status === 'fulfilled')).toHaveLength(1);
  });

  it('of a dead holder is taken over; what nobody can judge is left alone', async () => {
    const file = path.join(temp.dir, 'l');
    const s = await sleeper();
    await s.end();
    await writePidRecord(file, s.identity);
    await (await takeStartLock(file)).release();
    await writePidRecord(file, { ...s.identity, boot: 'x/1', host: 'elsewhere' });
    await expect(takeStartLock(file)).rejects.toMatchObject({ code: 'conflict' });
  });
});
