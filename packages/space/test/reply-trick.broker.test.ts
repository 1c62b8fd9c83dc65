import { JetStreamApi, type Link } from '@plane3/link';
import {
  bucketSubject,
  inboxCursorSubject,
  inboxFenceSubject,
  inboxSubject,
  type Lifecycle,
  lifecycleKey,
} from '@plane3/protocol';
import { grantLines, newUid } from '@plane3/space';
import { Agents } from '@plane3/space/nats';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { SpaceBroker } from './support/broker.ts';
import { attemptOf } from './support/probe.ts';

/**
 * The broker does not check the reply subject of a publish. What an agent may publish it may
 * therefore have answered, by the broker itself, on any subject of its account. Nothing that
 * decides anything may lie within its reach.
 */
const bob: Lifecycle = { owner: 'local', actor: 'bob', uid: newUid() };
let broker: SpaceBroker;
let alice: { link: Link; lifecycle: Lifecycle; userKey: string };

beforeAll(async () => {
  broker = await SpaceBroker.provisioned();
  const agents = new Agents(broker.links);
  const added = await agents.add({
    owner: 'local',
    actor: 'alice',
    read: ['team'],
    write: ['team'],
    role: 'reviewer',
  });
  agents.close();
  if (added.kind !== 'done') throw new Error(JSON.stringify(added));
  const { minted, lifecycle } = added.value;
  alice = { link: await broker.connect(minted), lifecycle, userKey: minted.userKey };
});
afterAll(() => broker.stop());

/** Every stream of the vault, as the broker tells it: last sequence, count, consumers, settings. */
async function vault(): Promise<Record<string, unknown>> {
  const api = new JetStreamApi(await broker.links.get('operator-vault'));
  const out: Record<string, unknown> = {};
  for (const { config } of broker.specs.filter((s) => s.account === 'vault')) {
    const o = await api.streamInfo(config.name);
    if (o.kind !== 'done') throw new Error(`${config.name}: ${JSON.stringify(o)}`);
    const { created, state, config: have } = o.value;
    out[config.name] = [created, state.last_seq, state.messages, state.consumer_count, have];
  }
  return out;
}

/** The names under which the vault keeps what decides, as subjects and as calls on its streams. */
function privateSubjects(): string[] {
  const { prefix, buckets } = broker.names;
  const streams = broker.specs.filter((s) => s.account === 'vault').map((s) => s.config.name);
  // Names that both accounts have are left out of the destructive calls: they would be the copies.
  const own = streams.filter(
    (s) => !broker.specs.some((x) => x.account === 'space' && x.config.name === s),
  );
  return [
    inboxSubject(prefix, bob),
    inboxSubject(prefix, alice.lifecycle),
    inboxFenceSubject(prefix, 0),
    inboxCursorSubject(prefix, 0),
    `${prefix}.dead._post`,
    bucketSubject(buckets.acl, lifecycleKey(alice.lifecycle)),
    bucketSubject(buckets.members, `team/${lifecycleKey(alice.lifecycle)}`),
    bucketSubject(buckets.channels, 'team'),
    bucketSubject(buckets.lease, 'lease.0'),
    bucketSubject(buckets.records, 'cp.flow.t.status'),
    bucketSubject(buckets.state, 'x'),
    ...own.flatMap((s) => [
      `$JS.API.STREAM.PURGE.${s}`,
      `$JS.API.STREAM.DELETE.${s}`,
      `$JS.API.STREAM.MSG.DELETE.${s}`,
      `$JS.API.STREAM.UPDATE.${s}`,
    ]),
  ];
}

const rights = () =>
  grantLines(
    'agent',
    {
      names: broker.names,
      lifecycle: alice.lifecycle,
      userKey: alice.userKey,
      spaceAccountKey: broker.trust.accountKey('space'),
    },
    { allowSubscribe: ['team'], allowPublish: ['team'], role: 'reviewer' },
  )
    .filter((l) => l.direction === 'pub')
    .map((l) => attemptOf(l).subject);

test('no publish or API call of an agent, with any private subject as its reply, changes the vault', async () => {
  const before = await vault();
  const bodies = ['', '{"batch":1,"no_wait":true}', 'probe'].map((b) =>
    new TextEncoder().encode(b),
  );
  for (const reply of privateSubjects())
    for (const subject of rights())
      for (const body of bodies) alice.link.publish(subject, body, { reply });
  expect(await alice.link.flush(10_000)).toMatchObject({ kind: 'done' });
  expect(await vault()).toEqual(before);
});

test('no acknowledgement of a post purges a stream, deletes or changes one in the account of the agents', async () => {
  const space = new JetStreamApi(await broker.links.get('operator'));
  const { streams, prefix } = broker.names;
  const look = async () => {
    const o = await space.streamInfo(streams.chat);
    if (o.kind !== 'done') throw new Error(JSON.stringify(o));
    return { config: o.value.config, first: o.value.state.first_seq, held: o.value.state.messages };
  };
  const post = (reply?: string) =>
    alice.link.publish(
      `${prefix}.chat.local.alice.team`,
      new TextEncoder().encode('{}'),
      reply === undefined ? {} : { reply },
    );
  post();
  await alice.link.flush();
  const before = await look();
  // The acknowledgement names a sequence, and so do these calls: `{"stream":"CHAT_…","seq":7}`.
  const calls = ['PURGE', 'MSG.DELETE', 'DELETE', 'UPDATE'].map(
    (verb) => `$JS.API.STREAM.${verb}.${streams.chat}`,
  );
  for (const call of calls) post(call);
  await alice.link.flush();
  await expect.poll(async () => (await look()).held).toBe(before.held + calls.length);
  expect(await look()).toMatchObject({ config: before.config, first: before.first });
});

test('a consumer that delivers to a private subject changes nothing in the vault', async () => {
  const before = await vault();
  const { streams, prefix } = broker.names;
  const name = `chathist_local-alice-${alice.lifecycle.uid}`;
  const filter = `${prefix}.chat.*.*.team`;
  const api = new JetStreamApi(alice.link);
  alice.link.publish(`${prefix}.chat.local.alice.team`, new TextEncoder().encode('{}'));
  for (const deliver_subject of privateSubjects()) {
    await api.call(`CONSUMER.CREATE.${streams.chat}.${name}.${filter}`, {
      stream_name: streams.chat,
      config: {
        name,
        deliver_subject,
        filter_subject: filter,
        ack_policy: 'none',
        deliver_policy: 'all',
        idle_heartbeat: 100_000_000,
      },
    });
    await api.consumerDelete(streams.chat, name);
  }
  expect(await vault()).toEqual(before);
});

test('a consumer is made in its pinned form only, whatever its body says', async () => {
  const { streams, prefix } = broker.names;
  const name = `chathist_local-alice-${alice.lifecycle.uid}`;
  const filter = `${prefix}.chat.*.*.team`;
  const api = new JetStreamApi(alice.link);
  const create = (verb: string, config: object) =>
    api.call(`CONSUMER.${verb}`, {
      stream_name: streams.chat,
      config: { ack_policy: 'none', ...config },
    });
  const pinned = `CREATE.${streams.chat}.${name}.${filter}`;
  for (const [verb, config] of [
    [pinned, { name, filter_subject: `${prefix}.chat.>` }],
    [pinned, { name }],
    [pinned, { name, filter_subjects: [filter, `${prefix}.chat.*.*.secret`] }],
    [pinned, { name, filter_subject: filter, filter_subjects: [filter, `${prefix}.chat.>`] }],
  ] as const)
    expect(await create(verb, config), JSON.stringify(config)).toMatchObject({
      kind: 'refused',
      reason: 'rejected',
    });
  for (const verb of [
    `CREATE.${streams.chat}.${name}.${prefix}.chat.*.*.secret`,
    `CREATE.${streams.chat}.${name}.${prefix}.chat.>`,
    `CREATE.${streams.chat}.${name}`,
    `CREATE.${streams.chat}`,
    `CREATE.${streams.chat}.fanout.${filter}`,
    `CREATE.${streams.dlv}.${name}.${prefix}.dlv.${lifecycleKey(alice.lifecycle)}`,
    `CREATE.${streams.dm}.${name}.${prefix}.inst.local.alice.*.*`,
    `DURABLE.CREATE.${streams.chat}.${name}`,
  ])
    expect(await create(verb, { name, filter_subject: filter }), verb).toMatchObject({
      kind: 'refused',
      reason: 'permission-denied',
    });

  // The subject's name counts, not the body's: nobody else's consumer can be touched.
  const misnamed = await create(pinned, { name: 'fanout', filter_subject: filter });
  expect(misnamed).toMatchObject({ kind: 'done', value: { name } });
});
