import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { LinuxHostProbe } from '@plane3/lease/nats';
import { expect, test } from 'vitest';

const probe = new LinuxHostProbe();

test('this process is alive', async () => {
  expect(await probe.judge(probe.self())).toBe('alive');
});

test('the same pid with another start time is another process: its owner is dead', async () => {
  expect(await probe.judge({ ...probe.self(), start: '1' })).toBe('dead');
});

test('a process that has ended is dead', async () => {
  const child = spawn(process.execPath, ['-e', '0']);
  const pid = child.pid ?? 0;
  await once(child, 'close');
  expect(await probe.judge({ ...probe.self(), pid, start: '1' })).toBe('dead');
});

test('another boot, another pid name space and nonsense are unknown, never dead', async () => {
  const self = probe.self();
  for (const host of [
    { ...self, boot: 'another.1' },
    { ...self, boot: self.boot.replace(/\d+$/, '1') },
    { ...self, boot: 'unknown', pid: 999_999_999 },
    { ...self, pid: 0 },
    { ...self, pid: -1 },
    { ...self, pid: 1.5 },
  ])
    expect(await probe.judge(host)).toBe('unknown');
});
