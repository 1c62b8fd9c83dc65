import { readdirSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { JetStreamApi } from '@plane3/link';
import { spaceNames } from '@plane3/protocol';
import { readMeshRecord, TrustStore } from '@plane3/space';
import { AdminLinks } from '@plane3/space/nats';
import { eventually } from '@plane3/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Mesh } from './cli.ts';

interface Status {
  state: string;
  daemon: { state: string; pid: number; incarnation: string; lease: { holder: string } | null };
  broker: { state: string; pid: number };
  manager: { pid: number };
  parts: Record<string, { state: string }>;
}

interface Pending {
  pending: number;
  handed_over: number;
  withheld: Record<string, number>;
}

/** A zombie that nobody has asked for yet is dead. */
const isAlive = (pid: number): boolean => {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return !/^ [ZX]/.test(stat.slice(stat.lastIndexOf(')') + 1));
  } catch {
    return false;
  }
};

/** What the broker itself says: entries in the private store, copies within the member's reach. */
async function storedFor(mesh: Mesh, name: string): Promise<{ inbox: number; dlv: number }> {
  const record = readMeshRecord(mesh.root, 'main');
  if (record === undefined) throw new Error('no mesh record');
  const names = spaceNames('main');
  const trust = new TrustStore(mesh.root).open('main');
  const links = new AdminLinks({
    trust,
    names,
    servers: [record.server],
    transport: { kind: 'plain' },
  });
  const count = async (profile: 'operator' | 'operator-vault', stream: string, kind: string) => {
    const api = new JetStreamApi(await links.get(profile));
    const subjectsFilter = `${names.prefix}.${kind}.local.${name}.*`;
    const info = await api.streamInfo(stream, { subjectsFilter });
    if (info.kind !== 'done') throw new Error(JSON.stringify(info));
    return Object.values(info.value.state.subjects ?? {}).reduce((a, b) => a + b, 0);
  };
  try {
    return {
      inbox: await count('operator-vault', names.streams.inbox, 'dinbox'),
      dlv: await count('operator', names.streams.dlv, 'dlv'),
    };
  } finally {
    await links.close();
  }
}

describe('a mesh, by its command line', () => {
  const mesh = new Mesh();
  beforeAll(async () => {
    await mesh.ok('up', '--lease-ttl', '3s');
  });
  afterAll(() => mesh.end());

  const agent = (name: string, read: string, write = read) =>
    mesh.ok('agent', 'add', name, '--read', read, '--write', write);
  const status = () => mesh.ok<Status>('status');
  const pending = (name: string) => mesh.ok<Pending>('pending', name);

  it('reports a serving daemon with its incarnation, and exits 0 only because of that', async () => {
    const s = await status();
    expect(s.state).toBe('serving');
    expect(s.daemon.state).toBe('serving');
    expect(s.daemon.incarnation).toMatch(/^[a-z0-9]{26}$/);
    for (const part of ['fan_out', 'reader', 'registry', 'schedule_writer', 'observer'])
      expect(s.parts[part], part).toMatchObject({ state: 'serving' });
  });

  it('keeps every secret file to its owner', () => {
    const cotal = path.join(mesh.root, '.cotal');
    expect(statSync(path.join(cotal, 'auth')).mode & 0o077).toBe(0);
    const space = readdirSync(cotal).find((f) => f.startsWith('space.')) as string;
    for (const f of readdirSync(path.join(cotal, space)))
      expect(statSync(path.join(cotal, space, f)).mode & 0o077, f).toBe(0);
  });

  it('holds three posts for an absent member across a SIGKILL of the daemon, exactly once', async () => {
    await agent('alice', 'team');
    await agent('bob', 'team');
    expect(await mesh.ok('join', 'team', '--as', 'alice')).toMatchObject({
      live: true,
      durable: true,
    });
    expect(await mesh.ok('join', 'team', '--as', 'bob')).toMatchObject({
      live: true,
      durable: true,
    });
    const receipt = await mesh.ok('post', 'team', 'one', '--as', 'alice');
    expect(receipt).toMatchObject({ channel: 'team', class: 'durable', guarantee: 'durable' });
    const { daemon } = await status();
    process.kill(daemon.pid, 'SIGKILL');
    await eventually(() => !isAlive(daemon.pid));
    await mesh.ok('post', 'team', 'two', '--as', 'alice');
    const down = await mesh.run('status', '--json');
    expect(down.code).toBe(3);
    expect(down.json<Status>().daemon.state).toBe('down');
    const up = await mesh.ok<{ daemon: { incarnation: string; started: boolean } }>('up');
    expect(up.daemon.started).toBe(true);
    expect(up.daemon.incarnation).not.toBe(daemon.incarnation);
    await mesh.ok('post', 'team', 'three', '--as', 'alice');
    await expect
      .poll(() => pending('bob'), { timeout: 10_000 })
      .toMatchObject({ pending: 3, handed_over: 0 });
    expect(await storedFor(mesh, 'bob')).toEqual({ inbox: 3, dlv: 0 });
    expect((await mesh.mail('bob')).map((m) => m.text)).toEqual(['one', 'two', 'three']);
    expect(await mesh.mail('bob')).toEqual([]);
    await expect.poll(() => pending('bob'), { timeout: 10_000 }).toMatchObject({ pending: 0 });
    // The sender's own principal gets no copy.
    expect(await mesh.mail('alice')).toEqual([]);
  });

  it('surfaces nothing of a channel after the leave was acknowledged', async () => {
    await agent('carol', 'team');
    await mesh.ok('join', 'team', '--as', 'carol');
    await mesh.ok('post', 'team', 'for carol 1', '--as', 'alice');
    await mesh.ok('post', 'team', 'for carol 2', '--as', 'alice');
    await expect.poll(() => pending('carol'), { timeout: 10_000 }).toMatchObject({ pending: 2 });
    expect(await mesh.ok('leave', 'team', '--as', 'carol')).toMatchObject({
      disposed: 2,
      already_left: false,
    });
    expect(await mesh.mail('carol')).toEqual([]);
    expect(await mesh.ok('leave', 'team', '--as', 'carol')).toMatchObject({ already_left: true });
    await mesh.ok('join', 'team', '--as', 'carol');
    expect(await mesh.mail('carol')).toEqual([]);
  });

  it('withholds what a narrowed member may not read any more, and releases it if it may again', async () => {
    await agent('dave', 'team');
    await mesh.ok('join', 'team', '--as', 'dave');
    await mesh.ok('post', 'team', 'for dave 1', '--as', 'alice');
    await mesh.ok('post', 'team', 'for dave 2', '--as', 'alice');
    await expect.poll(() => pending('dave'), { timeout: 10_000 }).toMatchObject({ pending: 2 });
    await mesh.ok('agent', 'set', 'dave', '--read', 'other');
    const p = await pending('dave');
    expect(Object.values(p.withheld).reduce((a, b) => a + b, 0)).toBe(2);
    expect(await mesh.mail('dave')).toEqual([]);
    await mesh.ok('agent', 'set', 'dave', '--read', 'team');
    expect((await mesh.mail('dave')).map((m) => m.text)).toEqual(['for dave 1', 'for dave 2']);
  });

  it('copies a mention on a live channel to an absent peer that may read it, and to nobody else', async () => {
    await mesh.ok('channel', 'set', 'lobby', '--class', 'live');
    await agent('erin', 'lobby');
    await agent('frank', 'team');
    await mesh.ok('agent', 'set', 'alice', '--read', 'team,lobby', '--write', 'team,lobby');
    await expect
      .poll(
        async () =>
          (await mesh.ok<{ class: string }>('post', 'lobby', 'hi', '--as', 'alice')).class,
        { timeout: 10_000 },
      )
      .toBe('live');
    await mesh.ok(
      'post',
      'lobby',
      'you two',
      '--as',
      'alice',
      '--mention',
      'erin',
      '--mention',
      'frank',
    );
    await expect.poll(() => pending('erin'), { timeout: 10_000 }).toMatchObject({ pending: 1 });
    expect((await mesh.mail('erin')).map((m) => m.text)).toEqual(['you two']);
    expect(await mesh.mail('frank')).toEqual([]);
  });

  it('fires a timer that an endpoint asked for', async () => {
    expect(await mesh.ok('timers', 'arm', '--in', '1s')).toMatchObject({ fired: true });
  });

  it('shows a peek without confirming it', async () => {
    await mesh.ok('post', 'team', 'peeked', '--as', 'alice');
    await expect.poll(() => pending('bob'), { timeout: 10_000 }).not.toMatchObject({ pending: 0 });
    const first = await mesh.mail('bob', '--peek');
    expect(first.map((m) => m.text)).toContain('peeked');
    const again = await eventually(async () => {
      const m = await mesh.mail('bob');
      return m.some((x) => x.text === 'peeked') ? m : undefined;
    });
    expect(again.length).toBeGreaterThan(0);
  });

  it('retires an agent with its whole footprint, idempotently', async () => {
    await agent('gina', 'team');
    await mesh.ok('join', 'team', '--as', 'gina');
    await mesh.ok('post', 'team', 'for gina', '--as', 'alice');
    const first = await mesh.ok<{ retired: string[] }>('agent', 'retire', 'gina');
    expect(first.retired).toHaveLength(1);
    await mesh.ok('agent', 'retire', 'gina');
    const members = await mesh.ok<{ durable: { member: string }[] }>('members', 'team');
    expect(members.durable.map((m) => m.member)).not.toContain('local.gina');
  });

  it('relaunches nothing when nothing is missing', async () => {
    const before = await status();
    const up = await mesh.ok<{ daemon: { started: boolean }; broker: { started: boolean } }>('up');
    expect(up.daemon.started).toBe(false);
    expect(up.broker.started).toBe(false);
    expect((await status()).daemon.pid).toBe(before.daemon.pid);
  });

  it('says what is wrong with bad input, how to repair it, and ends with the documented code', async () => {
    const cases: [string[], number, RegExp][] = [
      [['join', 'team.>', '--as', 'alice'], 2, /concrete channel/],
      [['join', 'team', '--as', 'nobody'], 2, /agent add nobody/],
      [['agent', 'add', 'bad name', '--read', 'team'], 2, /repair/],
      [['channel', 'set', 'team', '--class', 'sometimes'], 2, /durable/],
      [['post', 'other', 'x', '--as', 'bob'], 7, /permission/i],
      [['up', '--port', '1'], 9, /contradicts/],
      [['pending', 'nobody'], 2, /agent-unknown/],
      [['agent', 'add', 'c', '--read', 'te am'], 2, /repair/],
      [['post', 'other', 'x', '--as', 'bob'], 7, /--write/],
      [['nonsense'], 2, /\[usage\]/],
      [['up', '--space', 'tls', '--tls-cert', 'nope', '--tls-key', 'nope'], 9, /no such file/],
      [['status', '--space', 'Main'], 2, /cotal up --space Main/],
    ];
    for (const [args, code, text] of cases) {
      const a = await mesh.run(...args);
      expect(a.code, args.join(' ')).toBe(code);
      expect(a.stderr, args.join(' ')).toMatch(text);
      expect(a.stdout, args.join(' ')).toBe('');
    }
  });

  it('a second daemon is refused and leaves the first alone', async () => {
    const before = await status();
    const second = mesh.start('deliver', '--space', 'main');
    expect((await second.exit()).code).toBe(4);
    expect((await status()).daemon.incarnation).toBe(before.daemon.incarnation);
  });

  it('down leaves no process and no record, and says so twice', async () => {
    const s = await status();
    await mesh.ok('down');
    for (const pid of [s.daemon.pid, s.broker.pid, s.manager.pid]) expect(isAlive(pid)).toBe(false);
    const files = readdirSync(path.join(mesh.root, '.cotal'));
    expect(files.filter((f) => f.endsWith('.pid'))).toEqual([]);
    expect(await mesh.ok('down')).toMatchObject({ daemon: 'was-gone', broker: 'was-gone' });
    const log = files.find((f) => f.startsWith('delivery.') && f.endsWith('.log')) as string;
    const last = readFileSync(path.join(mesh.root, '.cotal', log), 'utf8')
      .trim()
      .split('\n')
      .at(-1);
    expect(JSON.parse(last as string)).toMatchObject({ event: 'daemon.exit', exit: 0 });
  });
});
