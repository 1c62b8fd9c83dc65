import { JetStreamApi, type Link, Publisher } from '@plane3/link';
import { chatSubject, handOverSubject, historyDurable, type Lifecycle } from '@plane3/protocol';
import { type Minted, userKeyOf } from '@plane3/space';
import { AdminLinks, type Agent, Agents, listChannels, setChannel } from '@plane3/space/nats';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { PLAIN, SpaceBroker } from './support/broker.ts';

let broker: SpaceBroker;
let links: AdminLinks;
let agents: Agents;
let all: Link;
beforeAll(async () => {
  broker = await SpaceBroker.provisioned();
});
afterAll(() => broker.stop());
beforeEach(() => {
  links = broker.adminLinks();
  agents = new Agents(links);
});
afterEach(async () => {
  agents.close();
  await links.close();
});

const local = (actor: string) => ({ owner: 'local', actor });
const ask = (actor: string, read: string[] = ['team'], write: string[] = ['team']) => ({
  ...local(actor),
  read,
  write,
});
const value = <T>(o: { kind: string } & Partial<{ value: T }>): T => {
  if (o.kind !== 'done') throw new Error(JSON.stringify(o));
  return o.value as T;
};
const api = async (): Promise<JetStreamApi> => {
  all = await broker.connect(await broker.mint('delivery', {}));
  return new JetStreamApi(all);
};
const connects = async (minted: Minted): Promise<boolean> => {
  try {
    const link = await broker.connect(minted);
    await link.close();
    return true;
  } catch (e) {
    expect(e).toMatchObject({ code: 'credential-refused' });
    return false;
  }
};

test('an agent has its row before its credential, and durables of exactly its own', async () => {
  const poster = await broker.connect(
    (value(await agents.add(ask('poster'))) as Agent & { minted: Minted }).minted,
  );
  const publisher = new Publisher(poster);
  await publisher.publish(
    `${broker.names.prefix}.inst.local.bob.local.poster`,
    new Uint8Array(1),
    undefined,
  );
  publisher.close();
  const bob = value(await agents.add({ ...ask('bob'), role: 'reviewer', name: 'Bob' }));
  expect(bob.row).toMatchObject({
    name: 'bob',
    allowSubscribe: ['team'],
    issuedAllowSubscribe: ['team'],
    revision: 1,
  });
  const { streams, prefix } = broker.names;
  const operator = new JetStreamApi(await links.get('provisioner'));
  const id = `local-bob-${bob.lifecycle.uid}`;
  const dlv = value(await operator.consumerInfo(streams.dlv, `dlv_${id}`));
  expect(dlv.config).toMatchObject({
    filter_subject: handOverSubject(prefix, bob.lifecycle),
    ack_policy: 'explicit',
    ack_wait: 60e9,
    max_deliver: -1,
  });
  const dm = value(await operator.consumerInfo(streams.dm, `dm_${id}`));
  expect(dm.config).toMatchObject({
    filter_subject: `${prefix}.inst.local.bob.*.*`,
    opt_start_seq: 2,
  });
  expect(dm.num_pending).toBe(0);
  expect(
    value(await operator.consumerInfo(streams.task, 'svc_reviewer')).config.filter_subject,
  ).toBe(`${prefix}.svc.reviewer.*.*`);
  expect(await connects(bob.minted)).toBe(true);
});

test('adding again continues the lifecycle; other rights are refused', async () => {
  const first = value(await agents.add(ask('again')));
  const second = value(await agents.add(ask('again')));
  expect(second.lifecycle).toEqual(first.lifecycle);
  expect(await connects(second.minted)).toBe(true);
  expect(await agents.add(ask('again', ['other']))).toMatchObject({
    kind: 'refused',
    reason: 'already-exists',
  });
});

test('narrowing takes hand-overs back, ends the old connection and keeps it out over a restart', async () => {
  const before = value(await agents.add(ask('dave', ['team', 'ops'])));
  const held = await broker.connect(before.minted);
  const delivery = await api();
  const subject = handOverSubject(broker.names.prefix, before.lifecycle);
  const publisher = new Publisher(all);
  value(await publisher.publish(subject, new Uint8Array(1), undefined));
  publisher.close();

  const after = value(await agents.set(local('dave'), { read: ['team'] }));
  expect(after.row).toMatchObject({
    allowSubscribe: ['team'],
    allowPublish: ['team'],
    revision: 2,
  });
  expect(after.revision).toBeGreaterThan(before.revision);
  expect(value(await delivery.lastOf(broker.names.streams.dlv, subject))).toBeUndefined();
  await vi.waitFor(() => expect(held.connected).toBe(false));
  expect(await connects(before.minted)).toBe(false);

  const narrowed = await broker.connect(after.minted);
  expect(
    await narrowed.subscribe(`${broker.names.prefix}.chat.*.*.ops`, () => undefined),
  ).toMatchObject({
    reason: 'permission-denied',
  });

  // The configuration still preloads the token from before the revocation.
  await broker.nats.restart();
  expect(await connects(before.minted)).toBe(false);
  expect(await connects(after.minted)).toBe(true);
});

test('a renewal keeps the user, ends nobody, and a narrowing later ends every older credential', async () => {
  const first = value(await agents.add(ask('gwen')));
  const held = await broker.connect(first.minted);
  const renewed = value(
    await agents.renew(local('gwen'), { userKey: await userKeyOf(first.minted.creds) }),
  );
  expect(renewed.minted.userKey).toBe(first.minted.userKey);
  const fresh = value(await agents.renew(local('gwen')));
  expect(fresh.minted.userKey).not.toBe(first.minted.userKey);
  expect(held.connected).toBe(true);
  expect(fresh.row.keys).toHaveLength(2);
  const narrowed = value(await agents.set(local('gwen'), { read: [] }));
  for (const old of [first, renewed, fresh]) expect(await connects(old.minted)).toBe(false);
  expect(await connects(narrowed.minted)).toBe(true);
  const again = value(await agents.set(local('gwen'), { read: ['team'] }));
  expect(again.row.keys).toHaveLength(2);
});

test('no history consumer outlives the right it was made under, neither by narrowing nor by retirement', async () => {
  const { streams, prefix } = broker.names;
  const dana = value(await agents.add(ask('dana', ['team', 'ops'])));
  const name = historyDurable(dana.lifecycle);
  const filter = `${prefix}.chat.*.*.ops`;
  const followOps = async (minted: Minted): Promise<void> => {
    const link = await broker.connect(minted);
    // Nothing in the broker ends a consumer with its maker, and its filter is not judged again.
    value(
      await new JetStreamApi(link).call(`CONSUMER.CREATE.${streams.chat}.${name}.${filter}`, {
        stream_name: streams.chat,
        config: { name, durable_name: name, filter_subject: filter, ack_policy: 'none' },
      }),
    );
    await link.close();
  };
  const look = async (minted: Minted) => {
    const link = await broker.connect(minted);
    const found = await new JetStreamApi(link).consumerInfo(streams.chat, name);
    await link.close();
    return found;
  };

  await followOps(dana.minted);
  const narrowed = value(await agents.set(local('dana'), { read: ['team'] }));
  expect(await look(narrowed.minted)).toMatchObject({ reason: 'not-found' });

  const widened = value(await agents.set(local('dana'), { read: ['team', 'ops'] }));
  await followOps(widened.minted);
  value(await agents.retire(local('dana')));
  const admin = new JetStreamApi(await links.get('deprovisioner'));
  expect(await admin.consumerInfo(streams.chat, name)).toMatchObject({ reason: 'not-found' });
});

test('two narrowings at once: one wins, the other comes after it or is told of the conflict', async () => {
  value(await agents.add(ask('race', ['a', 'b', 'c'])));
  const other = new Agents(links);
  const both = await Promise.all([
    agents.set(local('race'), { read: ['a'] }),
    other.set(local('race'), { read: ['b'] }),
  ]);
  other.close();
  // Which of the two happens is a matter of time; that one overwrites the other unseen is not.
  const won = both.filter((o) => o.kind === 'done').map((o) => value(o).row);
  for (const o of both) if (o.kind !== 'done') expect(o).toMatchObject({ reason: 'conflict' });
  expect(won.map((row) => row.revision).sort()).toEqual(won.length === 2 ? [2, 3] : [2]);
  const last = won.reduce((a, b) => (a.revision > b.revision ? a : b));
  expect(value(await agents.find(local('race')))?.row).toMatchObject({
    revision: last.revision,
    allowSubscribe: last.allowSubscribe,
  });
});

test('a retired agent leaves a tombstone and nothing else; retiring again changes nothing', async () => {
  const carol = value(await agents.add(ask('carol')));
  const held = await broker.connect(carol.minted);
  const [gone] = value(await agents.retire(local('carol')));
  expect(gone?.row).toMatchObject({ allowSubscribe: [], issuedAllowSubscribe: [], name: 'carol' });
  expect(gone?.row.retiredAt).toBeGreaterThan(0);
  const operator = new JetStreamApi(await links.get('provisioner'));
  const id = `local-carol-${carol.lifecycle.uid}`;
  for (const [stream, name] of [
    [broker.names.streams.dlv, `dlv_${id}`],
    [broker.names.streams.dm, `dm_${id}`],
  ] as const)
    expect(await operator.consumerInfo(stream, name)).toMatchObject({ reason: 'not-found' });
  await vi.waitFor(() => expect(held.connected).toBe(false));
  expect(await connects(carol.minted)).toBe(false);
  const [again] = value(await agents.retire(local('carol')));
  expect(again?.revision).toBe(gone?.revision);
  expect(value(await agents.retire(local('nobody')))).toEqual([]);
});

test('a name may be used again, a lifecycle may not', async () => {
  const first = value(await agents.add(ask('erin')));
  value(await agents.retire(local('erin')));
  const second = value(await agents.add(ask('erin', ['ops'])));
  expect(second.lifecycle.uid).not.toBe(first.lifecycle.uid);
  const erins = value(await agents.list()).filter((a) => a.lifecycle.actor === 'erin');
  expect(erins.map((a) => a.row.retiredAt === undefined)).toEqual([false, true]);
  expect(await agents.set(local('nobody'), { read: [] })).toMatchObject({
    reason: 'unknown-agent',
  });
});

test('an agent without any channel still connects and may publish no post', async () => {
  const mute = value(await agents.add(ask('mute', [], [])));
  const link = await broker.connect(mute.minted);
  const denied = vi.fn();
  link.onDenied(denied);
  link.publish(
    chatSubject(broker.names.prefix, mute.lifecycle as Lifecycle, 'team'),
    new Uint8Array(1),
  );
  await link.flush();
  await vi.waitFor(() => expect(denied).toHaveBeenCalledOnce());
});

test('channel configuration is changed by field and listed with the defaults', async () => {
  value(await setChannel(links, 'team', { deliveryClass: 'durable', description: 'x' }));
  const live = value(await setChannel(links, 'team', { deliveryClass: 'live' }));
  expect(live.config).toEqual({ deliveryClass: 'live', description: 'x' });
  value(await setChannel(links, '=defaults', { deliveryClass: 'durable' }));
  expect(value(await listChannels(links)).map((c) => c.channel)).toEqual(['=defaults', 'team']);
  for (const bad of ['team.*', '', 'a b'])
    await expect(setChannel(links, bad, {})).rejects.toMatchObject({ code: 'settings-invalid' });
});

test('without a broker nothing is claimed', async () => {
  const { trust, names } = broker;
  const dead = new AdminLinks({ trust, names, servers: ['127.0.0.1:1'], transport: PLAIN });
  await expect(new Agents(dead).add(ask('x'))).rejects.toMatchObject({
    code: 'broker-unreachable',
  });
});
