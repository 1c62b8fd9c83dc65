import { Bucket, JetStreamApi, type Link, openLink, Publisher } from '@plane3/link';
import { spaceNames } from '@plane3/protocol';
import {
  deliverySpecs,
  isWhole,
  type StreamConfig,
  type StreamReport,
  streamSpec,
  streamSpecs,
} from '@plane3/space';
import {
  provisionStreams,
  requireWhole,
  StreamApi,
  verifyStreams,
  writeDefaults,
} from '@plane3/space/nats';
import { startNats } from '@plane3/testkit';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { PLAIN, SpaceBroker } from './support/broker.ts';

const kinds = (reports: readonly StreamReport[]): string[] => [
  ...new Set(reports.map((r) => r.kind)),
];

describe('a new space under its own credentials', () => {
  let broker: SpaceBroker;
  beforeAll(async () => {
    broker = await SpaceBroker.start();
  });
  afterAll(() => broker.stop());

  test('everything is made, and a second run finds everything the same', async () => {
    for (const account of ['space', 'vault'] as const) {
      const first = await broker.provision(account);
      expect(kinds(first)).toEqual(['created']);
      expect(first.flatMap((r) => r.lacks)).toEqual([]);
      const second = await broker.provision(account);
      expect(kinds(second)).toEqual(['same']);
      expect(isWhole(second)).toBe(true);
    }
    expect(broker.nats.violations()).toEqual([]);
  });

  test('the daemon verifies its streams with its own credentials and cannot see the others', async () => {
    for (const [account, profile] of [
      ['space', 'delivery'],
      ['vault', 'delivery-vault'],
    ] as const) {
      const link = await broker.connect(await broker.mint(profile, {}));
      const o = await verifyStreams(link, deliverySpecs(broker.specs, account));
      expect(o).toMatchObject({ kind: 'done' });
      if (o.kind === 'done') expect(kinds(o.value)).toEqual(['same']);
    }
    const link = await broker.connect(await broker.mint('delivery', {}));
    const dm = [streamSpec(broker.specs, 'dm')];
    expect(await verifyStreams(link, dm)).toMatchObject({
      kind: 'refused',
      reason: 'permission-denied',
    });
  });

  test('the defaults are written once and never overwritten', async () => {
    const link = await broker.links.get('provisioner-vault');
    expect(await writeDefaults(link, broker.names, 'durable')).toEqual({
      kind: 'done',
      value: true,
    });
    expect(await writeDefaults(link, broker.names, 'live')).toEqual({ kind: 'done', value: false });
    const publisher = new Publisher(link);
    const row = await new Bucket(link, publisher, broker.names.buckets.channels).get('=defaults');
    publisher.close();
    if (row.kind !== 'done' || row.value === undefined) throw new Error('no defaults');
    expect(JSON.parse(new TextDecoder().decode(row.value.value))).toEqual({
      deliveryClass: 'durable',
    });
  });

  test('a contract artifact is created once: the broker refuses a second on its subject', async () => {
    const link = await broker.connect(await broker.mint('delivery', {}));
    const publisher = new Publisher(link);
    const subject = `${broker.names.prefix}.epc.${'a'.repeat(64)}`;
    const bytes = new Uint8Array([1]);
    const expectNone = [['Nats-Expected-Last-Subject-Sequence', '0']] as const;
    expect(await publisher.publish(subject, bytes, expectNone)).toMatchObject({ kind: 'done' });
    expect(await publisher.publish(subject, bytes, expectNone)).toMatchObject({
      kind: 'refused',
      reason: 'wrong-sequence',
    });
    expect(await publisher.publish(subject, bytes, undefined)).toMatchObject({ kind: 'refused' });
    publisher.close();
  });
});

describe('a space that differs', () => {
  const names = spaceNames('main');
  const specs = streamSpecs(names);
  const vault = specs.filter((s) => s.account === 'vault');
  let nats: Awaited<ReturnType<typeof startNats>>;
  let link: Link;
  beforeAll(async () => {
    nats = await startNats();
    link = await openLink({ name: 'all', servers: [nats.url], transport: PLAIN });
  });
  afterAll(async () => {
    await link.close();
    await nats.stop();
  });
  const change = async (config: StreamConfig, verb: 'create' | 'update'): Promise<void> => {
    const o = await new StreamApi(link)[verb](config);
    if (o.kind !== 'done') throw new Error(JSON.stringify(o));
  };
  const remove = async (name: string): Promise<void> => {
    await link.nc.request(`$JS.API.STREAM.DELETE.${name}`, '', { timeout: 2_000 });
  };
  const provision = async () => {
    const o = await provisionStreams(link, vault);
    if (o.kind !== 'done') throw new Error(JSON.stringify(o));
    return o.value;
  };
  const byRole = (reports: readonly StreamReport[], role: string) =>
    reports.find((r) => r.role === role);

  test('what can be changed is repaired and read back, what cannot is named by field', async () => {
    const inbox = streamSpec(specs, 'inbox').config;
    const dead = streamSpec(specs, 'dead').config;
    await change({ ...inbox, max_age: 0, discard: 'old' }, 'create');
    await change({ ...dead, retention: 'workqueue' }, 'create');
    const reports = await provision();
    expect(byRole(reports, 'inbox')).toMatchObject({ kind: 'repaired' });
    expect(byRole(reports, 'dead')).toMatchObject({
      kind: 'mismatch',
      differences: [{ field: 'retention', want: 'limits', have: 'workqueue' }],
    });
    expect(() => requireWhole(reports)).toThrow(/DEAD_main.retention is "workqueue", not "limits"/);
    await remove(dead.name);
  });

  test('verification changes nothing and names what is missing', async () => {
    const before = await verifyStreams(link, vault);
    if (before.kind !== 'done') throw new Error('not answered');
    expect(byRole(before.value, 'dead')).toMatchObject({ kind: 'missing' });
    expect(() => requireWhole(before.value)).toThrow(
      expect.objectContaining({ code: 'stream-missing' }),
    );
    await provision();
  });

  test('a store that is gone beside a registry with members is refused, not made anew', async () => {
    const publisher = new Publisher(link);
    const members = new Bucket(link, publisher, names.buckets.members);
    await members.put('team/local.bob.uid', new Uint8Array([1]), 0);
    publisher.close();
    await remove(names.streams.inbox);
    const reports = await provision();
    expect(byRole(reports, 'inbox')).toMatchObject({
      kind: 'lost',
      beside: ['KV_cotal_members_main'],
    });
    expect(() => requireWhole(reports)).toThrow(/INBOX_main is lost/);
    expect(await new JetStreamApi(link).streamInfo(names.streams.inbox)).toMatchObject({
      reason: 'not-found',
    });
  });

  test('without an answer nothing is concluded', async () => {
    await nats.kill();
    await vi.waitFor(() => expect(link.connected).toBe(false));
    expect(await provisionStreams(link, vault)).toMatchObject({ kind: 'unknown' });
    expect(await verifyStreams(link, vault)).toMatchObject({ kind: 'unknown' });
  });
});
