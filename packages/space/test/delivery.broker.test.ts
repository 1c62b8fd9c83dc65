import { JetStreamApi, type Link, Publisher } from '@plane3/link';
import {
  handOverDurable,
  handOverFenceSubject,
  handOverSubject,
  inboxCursorSubject,
  inboxFenceSubject,
  inboxSubject,
  type Lifecycle,
  parseAck,
  requestSubject,
  timerSubject,
} from '@plane3/protocol';
import { fireDurable, handOverDurableConfig, newUid } from '@plane3/space';
import { Agents } from '@plane3/space/nats';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { SpaceBroker } from './support/broker.ts';

/** What the daemon must be able to do, done with its own credentials and without one violation. */
let broker: SpaceBroker;
let space: Link;
let vault: Link;
let agent: { link: Link; lifecycle: Lifecycle };
beforeAll(async () => {
  broker = await SpaceBroker.provisioned();
  space = await broker.connect(await broker.mint('delivery', {}));
  vault = await broker.connect(await broker.mint('delivery-vault', {}));
  const agents = new Agents(broker.links);
  const o = await agents.add({
    owner: 'local',
    actor: 'alice',
    read: ['team', 'ops.*'],
    write: ['team', 'ops.>'],
  });
  agents.close();
  if (o.kind !== 'done') throw new Error(JSON.stringify(o));
  agent = { link: await broker.connect(o.value.minted), lifecycle: o.value.lifecycle };
});
afterAll(() => broker.stop());

const body = new TextEncoder().encode('{}');
const fenced = (subject: string, seq: number) =>
  [
    ['Nats-Expected-Last-Subject-Sequence', String(seq)],
    ['Nats-Expected-Last-Subject-Sequence-Subject', subject],
  ] as const;
const done = <T>(o: { kind: string } & Partial<{ value: T }>): T => {
  if (o.kind !== 'done') throw new Error(JSON.stringify(o));
  return o.value as T;
};

/** A pulled message keeps its own subject, so the answer cannot come over the shared inbox. */
const pullOne = (link: Link, subject: string) =>
  link.nc.request(subject, '1', { timeout: 5_000, noMux: true });

test('posts: fanout with its position, a catch-up consumer of one channel, a post read again', async () => {
  const { streams, durables, prefix } = broker.names;
  const publisher = new Publisher(agent.link);
  const { seq } = done(await publisher.publish(`${prefix}.chat.local.alice.team`, body, undefined));
  publisher.close();
  const api = new JetStreamApi(space);
  done(
    await api.consumerCreate(streams.chat, { durable_name: durables.fanout, ack_policy: 'all' }),
  );
  done(
    await api.consumerCreate(streams.chat, {
      name: 'catchup_1',
      filter_subject: `${prefix}.chat.*.*.team`,
      ack_policy: 'none',
    }),
  );
  for (const name of [durables.fanout, 'catchup_1']) {
    const m = await pullOne(space, `$JS.API.CONSUMER.MSG.NEXT.${streams.chat}.${name}`);
    expect(m.subject).toBe(`${prefix}.chat.local.alice.team`);
    if (name === durables.fanout) m.respond('+ACK');
  }
  expect(done(await api.atSeq(streams.chat, seq))?.subject).toContain('.team');
  expect(done(await api.consumerDelete(streams.chat, 'catchup_1'))).toBe(true);
  expect(done(await api.consumerDelete(streams.chat, durables.fanout))).toBe(true);
});

test('hand-over: fenced copy, pull and confirmation seen, durable repaired, subject purged', async () => {
  const { streams, prefix } = broker.names;
  const api = new JetStreamApi(space);
  const acks: string[] = [];
  const pulls: string[] = [];
  done(await space.subscribe(`$JS.ACK.${streams.dlv}.>`, (m) => acks.push(m.subject)));
  done(
    await space.subscribe(`$JS.API.CONSUMER.MSG.NEXT.${streams.dlv}.*`, (m) =>
      pulls.push(m.subject),
    ),
  );
  const publisher = new Publisher(space);
  const fence = handOverFenceSubject(prefix, 0);
  const { seq: fenceSeq } = done(await publisher.publish(fence, body, fenced(fence, 0)));
  const subject = handOverSubject(prefix, agent.lifecycle);
  const copy = done(
    await publisher.publish(subject, body, [...fenced(fence, fenceSeq), ['Nats-TTL', '120s']]),
  );
  expect(await publisher.publish(subject, body, fenced(fence, fenceSeq + 7))).toMatchObject({
    reason: 'wrong-sequence',
  });
  publisher.close();

  const durable = handOverDurable(agent.lifecycle);
  const next = `$JS.API.CONSUMER.MSG.NEXT.${streams.dlv}.${durable}`;
  const m = await pullOne(agent.link, next);
  m.respond('+ACK');
  await vi.waitFor(() => expect(acks).toHaveLength(1));
  expect(parseAck(acks[0] as string)).toMatchObject({ consumer: durable, seq: copy.seq });
  expect(pulls).toEqual([next]);

  done(await api.consumerInfo(streams.dlv, durable));
  done(
    await api.consumerCreate(
      streams.dlv,
      handOverDurableConfig(broker.names, agent.lifecycle) as never,
    ),
  );
  expect(done(await api.purge(streams.dlv, { subject }))).toBe(1);
  expect(done(await api.lastOf(streams.dlv, subject))).toBeUndefined();
  expect(done(await api.lastOf(streams.dlv, fence))?.seq).toBe(fenceSeq);
});

test('hand-over: the copies are followed beyond the window of the flow control', async () => {
  const { streams, prefix } = broker.names;
  const subject = handOverSubject(prefix, agent.lifecycle);
  const publisher = new Publisher(space);
  const api = new JetStreamApi(space);
  const header = [['Cotal-Entry', 'x'.repeat(1_000)]] as const;
  const copies = Array.from({ length: 3_000 }, () => publisher.publish(subject, body, header));
  for (const stored of await Promise.all(copies)) done(stored);
  const inbox = `${space.inboxPrefix}.tap`;
  let seen = 0;
  const sub = space.nc.subscribe(inbox, {
    callback: (_, m) => {
      if (m.headers?.code !== 100) seen++;
      else if (m.reply) m.respond();
    },
  });
  done(
    await api.consumerCreate(streams.dlv, {
      name: 'tap_test',
      deliver_subject: inbox,
      deliver_policy: 'all',
      filter_subject: `${prefix}.dlv.*.*.*`,
      ack_policy: 'none',
      headers_only: true,
      mem_storage: true,
      max_deliver: 1,
      flow_control: true,
      idle_heartbeat: 1_000_000_000,
      inactive_threshold: 5_000_000_000,
    }),
  );
  await vi.waitFor(() => expect(seen).toBe(copies.length), { timeout: 10_000 });
  sub.unsubscribe();
  done(await api.purge(streams.dlv, { subject }));
  publisher.close();
});

test('the member store: fence and cursor outlive its age, copies are read, deleted and purged', async () => {
  const { streams, prefix } = broker.names;
  const api = new JetStreamApi(vault);
  const publisher = new Publisher(vault);
  const fence = inboxFenceSubject(prefix, 0);
  const never = ['Nats-TTL', 'never'] as const;
  const { seq: at } = done(await publisher.publish(fence, body, [...fenced(fence, 0), never]));
  const cursor = inboxCursorSubject(prefix, 0);
  done(await publisher.publish(cursor, body, [...fenced(fence, at), never]));
  const subject = inboxSubject(prefix, agent.lifecycle);
  const seqs: number[] = [];
  for (let i = 0; i < 3; i++)
    seqs.push(done(await publisher.publish(subject, body, fenced(fence, at))).seq);
  publisher.close();
  const batch = done(await api.batchOf(streams.inbox, subject, 1, 10));
  expect(batch.messages.map((m) => m.seq)).toEqual(seqs);
  expect(done(await api.deleteSeq(streams.inbox, seqs[0] as number))).toBe(true);
  expect(done(await api.purge(streams.inbox, { subject }))).toBe(2);
  expect(done(await api.lastOf(streams.inbox, cursor))).toBeDefined();
});

test('timers: a request is taken from the own durable and fires where it was armed for', async () => {
  const { streams, durables, prefix } = broker.names;
  const instanceId = newUid();
  const timer = (verb: 'schedule' | 'armed' | 'fire') =>
    timerSubject(prefix, { endpoint: 'flow', instanceId, epoch: '1', timerId: 't1', verb });
  const author = await broker.connect(
    await broker.mint('endpoint-author', { endpoint: 'flow', instanceId }),
  );
  const fires = fireDurable(instanceId);
  done(
    await new JetStreamApi(author).consumerCreate(streams.timers, {
      durable_name: fires,
      filter_subject: `${prefix}.ept.flow.${instanceId}.*.*.fire`,
      ack_policy: 'explicit',
    }),
  );
  const asking = new Publisher(author);
  done(await asking.publish(timer('schedule'), body, undefined));
  asking.close();

  const api = new JetStreamApi(space);
  done(
    await api.consumerCreate(streams.timerRequests, {
      durable_name: durables.timers,
      filter_subject: `${prefix}.ept.*.*.*.*.schedule`,
      ack_policy: 'explicit',
    }),
  );
  const next = `$JS.API.CONSUMER.MSG.NEXT.${streams.timerRequests}.${durables.timers}`;
  const request = await pullOne(space, next);
  expect(request.subject).toBe(timer('schedule'));
  const arming = new Publisher(space);
  done(
    await arming.publish(timer('armed'), body, [
      ['Nats-Schedule', `@at ${new Date(Date.now() + 300).toISOString()}`],
      ['Nats-Schedule-Target', timer('fire')],
      ['Nats-Expected-Last-Subject-Sequence', '0'],
    ]),
  );
  arming.close();
  request.respond('+ACK');
  expect(done(await api.lastOf(streams.timers, timer('armed')))).toBeDefined();
  const fire = await pullOne(author, `$JS.API.CONSUMER.MSG.NEXT.${streams.timers}.${fires}`);
  expect(fire.subject).toBe(timer('fire'));
  expect(fire.headers?.get('Nats-Scheduler')).toBe(timer('armed'));
});

test('requests: the class rail in its queue, the instance rail, and the reply to the caller', async () => {
  const { prefix } = broker.names;
  const instanceId = newUid();
  const got: string[] = [];
  const rail = `${prefix}.ep.one.delivery.*.*.*.*.*`;
  const take = (m: { subject: string }) => got.push(m.subject);
  done(await space.subscribe(rail, take, { queue: 'delivery' }));
  done(await space.subscribe(`${prefix}.ep.inst.delivery.${instanceId}.*.*.*.*.*`, take));
  const nonce = 'n'.repeat(22);
  const to = { endpoint: 'delivery', command: 'join', caller: agent.lifecycle, nonce };
  const replies: string[] = [];
  const key = `${agent.lifecycle.owner}.${agent.lifecycle.actor}.${agent.lifecycle.uid}`;
  done(
    await agent.link.subscribe(`${prefix}.ep.reply.*.*.*.${key}.*`, (m) => replies.push(m.subject)),
  );
  agent.link.publish(requestSubject(prefix, to), body);
  agent.link.publish(requestSubject(prefix, { ...to, instanceId }), body);
  await vi.waitFor(() => expect(got).toHaveLength(2));
  space.publish(`${prefix}.ep.reply.delivery.${instanceId}.1.${key}.${nonce}`, body);
  await vi.waitFor(() => expect(replies).toHaveLength(1));
});

test('a pattern that ends in a star reaches one segment, however wide the subscription', async () => {
  const { prefix } = broker.names;
  const got: string[] = [];
  await agent.link.subscribe(`${prefix}.chat.*.*.ops.>`, (m) => got.push(m.subject));
  const publisher = new Publisher(agent.link);
  for (const channel of ['ops.a.b', 'ops.a'])
    done(await publisher.publish(`${prefix}.chat.local.alice.${channel}`, body, undefined));
  publisher.close();
  done(await agent.link.flush());
  await vi.waitFor(() => expect(got).toContain(`${prefix}.chat.local.alice.ops.a`));
  expect(got).toEqual([`${prefix}.chat.local.alice.ops.a`]);
});

test('all of this left no violation in the log of the broker', () => {
  expect(broker.nats.violations()).toEqual([]);
});
