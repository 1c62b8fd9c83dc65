import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { isPlane3Error } from '@plane3/protocol';
import { describe, expect, it } from 'vitest';
import { resolveSettings } from '../src/settings.ts';

const flags = { space: 'main', root: '/tmp' };

const refusal = (f: () => unknown): string => {
  try {
    f();
  } catch (e) {
    if (isPlane3Error(e) && e.code === 'settings-invalid') return e.message;
    throw e;
  }
  throw new Error('was accepted');
};

const file = (value: unknown): string => {
  const name = path.join(mkdtempSync(path.join(tmpdir(), 'plane3-settings-')), 'settings.json');
  writeFileSync(name, typeof value === 'string' ? value : JSON.stringify(value));
  return name;
};

describe('settings of the daemon', () => {
  it('come from the flag, else the environment, else the file, else the default', () => {
    const config = file({ windowEntries: 10, ackWaitMs: 5_000, logLevel: 'warn' });
    const s = resolveSettings({
      flags: { ...flags, logLevel: 'debug' },
      env: { DELIVERYD_ACK_WAIT_MS: '7000', DELIVERYD_LOG_LEVEL: 'error' },
      file: config,
    });
    expect(s).toMatchObject({
      logLevel: 'debug',
      ackWaitMs: 7_000,
      windowEntries: 10,
      windowBytes: 1 << 20,
    });
  });

  it('refuse unknown keys wherever they come from', () => {
    expect(refusal(() => resolveSettings({ flags, env: { DELIVERYD_WINDOWS: '1' } }))).toMatch(
      /DELIVERYD_WINDOWS/,
    );
    expect(refusal(() => resolveSettings({ flags, env: {}, file: file({ windw: 1 }) }))).toMatch(
      /windw/,
    );
  });

  it('name every wrong value at once', () => {
    const text = refusal(() =>
      resolveSettings({ flags: { space: '', root: '/tmp', ackWaitMs: 5, shard: 'x' }, env: {} }),
    );
    for (const key of ['space', 'ackWaitMs', 'shard']) expect(text).toMatch(key);
  });

  it('refuse a file that is no JSON object', () => {
    expect(refusal(() => resolveSettings({ flags, env: {}, file: file('[1]') }))).toMatch(/object/);
    expect(refusal(() => resolveSettings({ flags, env: {}, file: file('{') }))).toMatch(/JSON/);
    expect(refusal(() => resolveSettings({ flags, env: {}, file: '/nowhere/x' }))).toMatch(/read/);
  });
});
