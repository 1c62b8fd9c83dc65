import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { Link } from '@plane3/link';
import { directDurable, handOverDurable, spaceNames } from '@plane3/protocol';
import { readMeshRecord } from '@plane3/space';
import { eventually } from '@plane3/testkit';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { Mesh } from './cli.ts';

interface Status {
  readonly state: string;
  readonly daemon: { readonly incarnation: string };
  readonly parts: Record<
    string,
    { readonly state: string; readonly reason?: string; readonly counters: Record<string, number> }
  >;
}
const names = spaceNames('main');

/** A peer with an agent's own credential, that says whatever the broker lets it say. */
async function peer(mesh: Mesh, name: string): Promise<{ link: Link; uid: string }> {
  const record = readMeshRecord(mesh.root, 'main');
  if (record === undefined) throw new Error('no mesh record');
  const cotal = path.join(mesh.root, '.cotal');
  const space = readdirSync(cotal).find((f) => f.startsWith('space.')) as string;
  const folder = path.join(cotal, space, 'agents');
  const file = readdirSync(folder).find((f) => f.startsWith(`local.${name}.`)) as string;
  const link = await Link.open({
    name: 'peer',
    servers: [record.server],
    transport: { kind: 'plain' },
    credentials: () => readFileSync(path.join(folder, file)),
  });
  return { link, uid: file.split('.')[2] as string };
}

/** The broker's empty status at the end of a pull, aimed at a call of its own API. */
async function aim(link: Link, uid: string, call: string): Promise<void> {
  const durable = directDurable({ owner: 'local', actor: 'mallory', uid });
  const pull = `$JS.API.CONSUMER.MSG.NEXT.${names.streams.dm}.${durable}`;
  link.publish(pull, new TextEncoder().encode('{"batch":1,"no_wait":true}'), { reply: call });
  await link.flush();
}

describe('a mesh whose agent aims the broker at its streams', () => {
  const mesh = new Mesh();
  let mallory: { link: Link; uid: string };
  let bobUid: string;
  const statusNow = async () => (await mesh.run('status', '--json')).json<Status>();
  beforeAll(async () => {
    await mesh.ok('up', '--lease-ttl', '3s');
    for (const name of ['alice', 'bob', 'mallory'])
      await mesh.ok('agent', 'add', name, '--read', 'team', '--write', 'team');
    await mesh.ok('join', 'team', '--as', 'bob');
    mallory = await peer(mesh, 'mallory');
    const bob = await peer(mesh, 'bob');
    bobUid = bob.uid;
    await bob.link.close();
  });
  afterAll(async () => {
    await mallory.link.close();
    await mesh.end();
  });

  it('makes a member durable anew when it was deleted, and loses nothing', async () => {
    await mesh.ok('post', 'team', 'one', '--as', 'alice');
    const durable = handOverDurable({ owner: 'local', actor: 'bob', uid: bobUid });
    await aim(mallory.link, mallory.uid, `$JS.API.CONSUMER.DELETE.${names.streams.dlv}.${durable}`);
    expect((await mesh.mail('bob')).map((m) => m.text)).toEqual(['one']);
  });

  it('says that the hand-over stream is gone, and goes on by itself once it is made anew', async () => {
    await aim(mallory.link, mallory.uid, `$JS.API.STREAM.DELETE.${names.streams.dlv}`);
    await mesh.ok('post', 'team', 'two', '--as', 'alice');
    await eventually(async () => (await statusNow()).parts['reader']?.state === 'degraded', {
      timeoutMs: 10_000,
    });
    const s = await statusNow();
    expect(s.state).toBe('degraded');
    expect(s.parts['reader']?.reason).toContain('hand-over stream is missing');
    const up = await mesh.ok<{ daemon: { state: string; started: boolean } }>('up');
    expect(up.daemon).toMatchObject({ state: 'serving', started: false });
    expect((await mesh.mail('bob')).map((m) => m.text)).toEqual(['two']);
  });

  it('refuses a channel stream made anew, names the way on, and then hands over what it held', async () => {
    await mesh.ok('post', 'team', 'three', '--as', 'alice');
    await expect
      .poll(() => mesh.ok<{ pending: number }>('pending', 'bob'), { timeout: 10_000 })
      .toMatchObject({ pending: 1 });
    await aim(mallory.link, mallory.uid, `$JS.API.STREAM.DELETE.${names.streams.chat}`);
    const up = await mesh.run('up');
    expect(up.code).toBe(3);
    const again = await mesh.run('up');
    expect(again.code).toBe(3);
    expect(again.stderr).toContain('[store-recreated]');
    expect(again.stderr).toContain('cotal up --accept-recreated');
    await mesh.ok('up', '--accept-recreated');
    await mesh.ok('post', 'team', 'four', '--as', 'alice');
    await expect
      .poll(() => mesh.ok<{ pending: number }>('pending', 'bob'), { timeout: 10_000 })
      .toMatchObject({ pending: 2 });
    expect((await mesh.mail('bob')).map((m) => m.text)).toEqual(['three', 'four']);
  });

  it('counts junk instead of repeating it in the log', async () => {
    const log = () => {
      const cotal = path.join(mesh.root, '.cotal');
      const file = readdirSync(cotal).find((f) => /^delivery\..*\.log$/.test(f)) as string;
      return readFileSync(path.join(cotal, file), 'utf8').split('\n').length;
    };
    const before = log();
    for (let i = 0; i < 500; i++)
      mallory.link.publish(
        `${names.prefix}.chat.local.mallory.team`,
        new TextEncoder().encode(`junk ${i}`),
      );
    await mallory.link.flush();
    await eventually(
      async () =>
        ((await statusNow()).parts['fan_out']?.counters['buried.malformed-json'] ?? 0) === 500,
      { timeoutMs: 20_000 },
    );
    expect(log() - before).toBeLessThan(20);
    await mesh.ok('post', 'team', 'five', '--as', 'alice');
    expect((await mesh.mail('bob')).map((m) => m.text)).toEqual(['five']);
  });
});

describe('a clumsy operator', () => {
  let mesh: Mesh;
  afterEach(() => mesh.end());

  it.each([
    [['--lease-ttl', '1s'], 9],
    [['--port', '99999'], 2],
    [['--replicas', '9'], 9],
  ])('is refused before anything is started: up %j', async (flags, code) => {
    mesh = new Mesh();
    const up = await mesh.run('up', ...flags);
    expect(up.code, up.stderr).toBe(code);
    expect(up.stderr).not.toContain('[defect]');
    const cotal = path.join(mesh.root, '.cotal');
    const left = existsSync(cotal) ? readdirSync(cotal) : [];
    expect(left.filter((f) => f.endsWith('.pid'))).toEqual([]);
  });

  it('is told that .cotal is no folder, and what to do with a damaged record', async () => {
    mesh = new Mesh();
    const cotal = path.join(mesh.root, '.cotal');
    writeFileSync(cotal, '');
    const file = await mesh.run('up');
    expect(file.code).toBe(9);
    expect(file.stderr).toContain(cotal);
    mesh = new Mesh();
    mkdirSync(path.join(mesh.root, '.cotal'));
    writeFileSync(path.join(mesh.root, '.cotal', 'mesh.6d61696e.json'), '{"v":1,');
    const half = await mesh.run('status');
    expect(half.code).toBe(9);
    expect(half.stderr).toContain('mesh.6d61696e.json is not JSON');
    expect(half.stderr).toContain('remove it');
  });
});
