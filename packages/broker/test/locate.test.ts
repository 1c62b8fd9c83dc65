import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { type LocateOptions, locateBroker, type Pins } from '@plane3/broker';
import type { Plane3Error } from '@plane3/protocol';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  archiveOf,
  fakeBroker,
  fakeNpm,
  integrity,
  mirror,
  NPM,
  projectWithPackage,
  RELEASE,
  script,
  sha256,
  tempDir,
} from './support/fakes.ts';

const MEMBER = 'package/bin/nats-server';
const NO_PINS: Pins = { releases: {}, packages: {} };

let temp: ReturnType<typeof tempDir>;
beforeEach(() => {
  temp = tempDir();
});
afterEach(() => temp.remove());

const at = (...names: string[]): string => path.join(temp.dir, ...names);

const locate = (env: Record<string, string>, o: LocateOptions = {}) =>
  locateBroker({
    env: { NATS_BROKER_CACHE: at('cache'), PATH: at('empty'), ...env },
    from: at('nowhere', 'main.js'),
    systemFolders: [],
    pins: NO_PINS,
    ...o,
  });

const failure = async (p: Promise<unknown>): Promise<Plane3Error> =>
  p.then(
    () => expect.fail('found one'),
    (e: Plane3Error) => e,
  );

const pinsOf = (release: string | undefined, pkg?: string): Pins => ({
  releases: release === undefined ? {} : { [RELEASE]: { version: '2.14.5', sha256: release } },
  packages:
    pkg === undefined
      ? {}
      : { [NPM]: { name: 'pkg', version: '2.14.0', integrity: pkg, member: MEMBER } },
});

describe('a named binary is used or refused, never skipped', () => {
  it('uses NATS_SERVER_BIN before everything else', async () => {
    const bin = fakeBroker(at('named'), 'v2.12.0');
    fakeBroker(at('bin'), 'v2.15.0');
    expect(await locate({ NATS_SERVER_BIN: bin, PATH: at('bin') })).toEqual({
      source: 'NATS_SERVER_BIN',
      bin,
      version: 'v2.12.0',
    });
  });

  it('prefers the caller’s own setting to NATS_SERVER_BIN', async () => {
    const bin = fakeBroker(at('set'), 'v2.13.1');
    const other = fakeBroker(at('named'), 'v2.14.0');
    const hit = await locate({ NATS_SERVER_BIN: other }, { bin });
    expect(hit).toMatchObject({ source: 'setting', bin });
  });

  it.each([
    ['missing', 'not found', 'broker-missing'],
    ['old', 'is v2.10.22', 'broker-too-old'],
    ['garbage', 'tells no version', 'broker-missing'],
    ['failing', 'Command failed', 'broker-missing'],
  ])('refuses a %s one although PATH has a good one', async (kind, text, code) => {
    fakeBroker(at('bin'), 'v2.15.0');
    const bodies: Record<string, string> = {
      old: 'echo "nats-server: v2.10.22"',
      garbage: 'echo hello',
      failing: 'exit 3',
    };
    const body = bodies[kind];
    const bin = body === undefined ? at('named', 'nats-server') : script(at('named'), body);
    const e = await failure(locate({ NATS_SERVER_BIN: bin, PATH: at('bin') }));
    expect(e.code).toBe(code);
    expect(e.exitCode).toBe(10);
    expect(e.message).toContain('NATS_SERVER_BIN');
    expect(e.message).toContain(text);
  });
});

describe('what lies about on this machine', () => {
  it('takes the package in node_modules before PATH', async () => {
    const from = projectWithPackage(at('project'), 'v2.14.0');
    fakeBroker(at('bin'), 'v2.15.0');
    const hit = await locate({ PATH: at('bin') }, { from });
    expect(hit).toMatchObject({ source: 'npm package', version: 'v2.14.0' });
  });

  it('lists a too old one on PATH and goes on to a newer one behind it', async () => {
    fakeBroker(at('a'), 'v2.10.0');
    const bin = fakeBroker(at('b'), 'v2.12.4');
    expect(await locate({ PATH: `${at('a')}${path.delimiter}${at('b')}` })).toMatchObject({ bin });
  });

  it('looks into the folders that a service’s PATH lacks', async () => {
    const bin = fakeBroker(at('sbin'), 'v2.12.4');
    expect(await locate({}, { systemFolders: [at('sbin')] })).toMatchObject({ bin });
  });

  it('ignores relative PATH entries', async () => {
    expect((await failure(locate({ PATH: '.:bin' }))).code).toBe('broker-missing');
  });

  it('accepts a pre-release of a new enough version', async () => {
    fakeBroker(at('bin'), 'v2.15.0-RC.1');
    expect(await locate({ PATH: at('bin') })).toMatchObject({ version: 'v2.15.0-RC.1' });
  });
});

describe('nothing is downloaded unless it was allowed', () => {
  it('fails offline with one error that lists all places and every way out', async () => {
    fakeBroker(at('old'), 'v2.9.0');
    const m = await mirror(undefined);
    const pins = pinsOf('00', 'sha512-x');
    const e = await failure(locate({ PATH: at('old'), NATS_BROKER_MIRROR: m.url }, { pins }));
    await m.close();
    expect(m.hits()).toBe(0);
    expect(e.code).toBe('broker-missing');
    for (const text of ['cache:', 'npm package:', 'is v2.9.0', 'download: not allowed'])
      expect(e.message).toContain(text);
    for (const text of ['NATS_SERVER_BIN=', 'NATS_BROKER_DOWNLOAD=1', 'without one'])
      expect(e.help).toContain(text);
  });

  it('says what failed when it is allowed and there is no network', async () => {
    const env = { NATS_BROKER_DOWNLOAD: '1', NATS_BROKER_MIRROR: 'http://127.0.0.1:1' };
    const e = await failure(locate(env, { pins: pinsOf('00', 'sha512-x') }));
    expect(e.message).toContain('release download: ');
    expect(e.message).toContain('npm download: ');
    expect(e.help).toContain('NATS_SERVER_BIN=');
  });
});

describe('a download is what was pinned, or nothing', () => {
  const env = (url: string) => ({ NATS_BROKER_DOWNLOAD: '1', NATS_BROKER_MIRROR: url });

  it('installs the release archive, then serves it from the cache without a network', async () => {
    const file = archiveOf(temp.dir, 'v2.14.5', 'nats-server-v2.14.5/nats-server');
    const m = await mirror(file);
    const pins = pinsOf(sha256(file));
    const first = await locate(env(m.url), { pins });
    expect(first).toMatchObject({ source: 'release download', version: 'v2.14.5' });
    await m.close();
    expect(await locate({}, { pins })).toEqual({ ...first, source: 'cache' });
  });

  it('ignores a cached binary that was changed', async () => {
    const file = archiveOf(temp.dir, 'v2.14.5', 'x/nats-server');
    const m = await mirror(file);
    const pins = pinsOf(sha256(file));
    const { bin } = await locate(env(m.url), { pins });
    await m.close();
    writeFileSync(bin, '#!/bin/sh\necho "nats-server: v2.14.5"\n# changed\n');
    const e = await failure(locate({}, { pins }));
    expect(e.message).toContain('does not match its recorded SHA256');
  });

  it('refuses other bytes and does not go on to the next source', async () => {
    const file = archiveOf(temp.dir, 'v2.14.5', 'x/nats-server');
    const pkg = archiveOf(temp.dir, 'v2.14.0', MEMBER);
    fakeNpm(path.dirname(pkg), pkg);
    const m = await mirror(file);
    const pins = pinsOf('0'.repeat(64), integrity(pkg));
    const e = await failure(locate({ ...env(m.url), PATH: path.dirname(pkg) }, { pins }));
    await m.close();
    expect(e.message).toContain('a download failed its checksum');
    expect(e.message).not.toContain('npm download');
    expect((await failure(locate({}, { pins }))).message).toContain('cache: nothing at');
  });

  it('takes the npm package when the release cannot be had', async () => {
    const pkg = archiveOf(temp.dir, 'v2.14.0', MEMBER);
    fakeNpm(path.dirname(pkg), pkg);
    const m = await mirror(undefined);
    const pins = pinsOf('00', integrity(pkg));
    const hit = await locate({ ...env(m.url), PATH: path.dirname(pkg) }, { pins });
    await m.close();
    expect(hit).toMatchObject({ source: 'npm download', version: 'v2.14.0' });
  });

  it('refuses an npm package of another integrity', async () => {
    const pkg = archiveOf(temp.dir, 'v2.14.0', MEMBER);
    fakeNpm(path.dirname(pkg), pkg);
    const pins = pinsOf(undefined, 'sha512-other');
    const e = await failure(
      locate({ ...env('http://127.0.0.1:1'), PATH: path.dirname(pkg) }, { pins }),
    );
    expect(e.message).toContain('a download failed its checksum');
  });

  it('refuses a download that does not run on this machine', async () => {
    const file = archiveOf(temp.dir, 'nonsense', 'x/nats-server');
    const m = await mirror(file);
    const e = await failure(locate(env(m.url), { pins: pinsOf(sha256(file)) }));
    await m.close();
    expect(e.message).toContain('tells no version');
  });
});
