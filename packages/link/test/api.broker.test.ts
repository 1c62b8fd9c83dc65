import { AckPolicy } from '@nats-io/jetstream';
import { JetStreamApi, type Link, Publisher } from '@plane3/link';
import { eventually } from '@plane3/testkit';
import { expect, test } from 'vitest';
import { broker, createStream, link, mesh, relayTo, text, utf8 } from './support/links.ts';

async function withMessages(
  subjects: readonly string[],
  o: Record<string, unknown> = {},
): Promise<{ l: Link; api: JetStreamApi; nats: Awaited<ReturnType<typeof broker>> }> {
  const nats = await broker();
  const l = await link(nats.url);
  await createStream(l, 'S', { subjects: ['s.>'], ...o });
  const p = new Publisher(l);
  for (const [i, subject] of subjects.entries())
    await p.publish(subject, utf8(String(i + 1)), [['N', String(i + 1)]]);
  return { l, api: new JetStreamApi(l), nats };
}

const found = <T>(o: { kind: string; value?: T }): T => {
  expect(o).toMatchObject({ kind: 'done' });
  return o.value as T;
};

test('leader reads give the message with its headers, or prove that there is none', async () => {
  const { api } = await withMessages(['s.a', 's.b', 's.a']);
  const last = found(await api.lastOf('S', 's.a'));
  expect(last).toMatchObject({ subject: 's.a', seq: 3 });
  expect(text(last?.body ?? utf8(''))).toBe('3');
  expect(last?.header('N')).toBe('3');
  expect(last?.time).toMatch(/^\d{4}-.*\.\d+Z$/);
  expect(found(await api.atSeq('S', 2))?.subject).toBe('s.b');
  expect(found(await api.nextOf('S', 's.a', 2))?.seq).toBe(3);
  expect(found(await api.nextOf('S', 's.*', 0))?.seq).toBe(1);
  for (const absent of [
    api.lastOf('S', 's.x'),
    api.atSeq('S', 9),
    api.atSeq('S', 0),
    api.nextOf('S', 's.b', 3),
  ])
    expect(found(await absent)).toBeUndefined();
});

test('a missing stream is not-found in every call, and no read says "absent"', async () => {
  const { api } = await withMessages([]);
  const calls = {
    streamInfo: () => api.streamInfo('NO'),
    subjects: () => api.streamInfo('NO', { subjectsFilter: '>' }),
    lastOf: () => api.lastOf('NO', 's'),
    atSeq: () => api.atSeq('NO', 1),
    nextOf: () => api.nextOf('NO', 's', 1),
    batchOf: () => api.batchOf('NO', 's', 1, 10),
    deleteSeq: () => api.deleteSeq('NO', 1),
    purge: () => api.purge('NO', { subject: 's' }),
    consumerInfo: () => api.consumerInfo('NO', 'c'),
    consumerCreate: () => api.consumerCreate('NO', { name: 'c' }),
    consumerUpdate: () => api.consumerUpdate('NO', 'c', {}),
  };
  for (const [name, call] of Object.entries(calls))
    expect(await call(), name).toMatchObject({ kind: 'refused', reason: 'not-found' });
});

test('a denied subject is permission-denied in every call, long before the timeout', async () => {
  const m = await mesh();
  const all = await m.mint();
  const admin = await link(m.nats.url, { credentials: () => all.creds });
  await createStream(admin, 'S', { subjects: ['s'] });
  const { creds } = await m.mint({ pub: ['s'] });
  const l = await link(m.nats.url, { credentials: () => creds });
  const api = new JetStreamApi(l, { timeoutMs: 20_000 });
  const beganMs = performance.now();
  const answers = await Promise.all([
    api.streamInfo('S'),
    api.lastOf('S', 's'),
    api.atSeq('S', 1),
    api.nextOf('S', 's', 1),
    api.batchOf('S', 's', 1, 10),
    api.deleteSeq('S', 1),
    api.purge('S', { subject: 's' }),
    api.consumerInfo('S', 'c'),
    api.consumerCreate('S', { name: 'c', filter_subject: 's' }),
    api.consumerUpdate('S', 'c', {}),
    api.consumerDelete('S', 'c'),
  ]);
  for (const a of answers)
    expect(a).toMatchObject({ kind: 'refused', reason: 'permission-denied' });
  expect(performance.now() - beganMs).toBeLessThan(1_000);
});

test('no answer is unknown after the timeout; none is sent while disconnected', async () => {
  const { nats } = await withMessages(['s.a']);
  const relay = await relayTo(nats.url);
  const l = await link(relay.url);
  const api = new JetStreamApi(l, { timeoutMs: 200 });
  relay.hold('toClient');
  expect(await api.lastOf('S', 's.a')).toEqual({ kind: 'unknown', cause: 'timeout' });
  expect(await api.batchOf('S', 's.a', 1, 10)).toEqual({ kind: 'unknown', cause: 'timeout' });
  const open = api.streamInfo('S');
  relay.cut();
  expect(await open).toEqual({ kind: 'unknown', cause: 'disconnected' });
  expect(await api.streamInfo('S')).toEqual({ kind: 'unknown', cause: 'not-sent' });
});

test('batches give every message once, and say when the end is proved', async () => {
  const { api } = await withMessages(['s.a', 's.b', 's.a', 's.a', 's.b']);
  const first = found(await api.batchOf('S', 's.a', 1, 2));
  expect(first.messages.map((x) => x.seq)).toEqual([1, 3]);
  expect(first.complete).toBe(false);
  const rest = found(await api.batchOf('S', 's.a', 4, 2));
  expect(rest.messages.map((x) => [x.seq, text(x.body), x.header('N')])).toEqual([[4, '4', '4']]);
  expect(rest.complete).toBe(true);
  expect(found(await api.batchOf('S', 's.a', 5, 2))).toEqual({ messages: [], complete: true });
  expect(found(await api.batchOf('S', 's.x', 1, 2))).toEqual({ messages: [], complete: true });
  const bounded = found(await api.batchOf('S', 's.>', 1, 10, 1));
  expect(bounded.messages).toHaveLength(1);
  expect(bounded.complete).toBe(false);
});

test('a message that bears names of broker headers is seen to bear them', async () => {
  const { l, api } = await withMessages([]);
  const forged = [
    ['Nats-Subject', 'evil'],
    ['Nats-Sequence', '77'],
    ['X', 'y'],
  ] as const;
  await new Publisher(l).publish('s.a', utf8(''), forged);
  const direct = found(await api.batchOf('S', 's.a', 1, 1)).messages[0];
  expect(direct).toMatchObject({ subject: 's.a', seq: 1 });
  expect(direct?.headerNames()).toEqual(['Nats-Subject', 'Nats-Sequence', 'X']);
  const read = found(await api.lastOf('S', 's.a'));
  expect(read?.headerNames()).toEqual(['Nats-Subject', 'Nats-Sequence', 'X']);
});

test('a deletion says whether the message was there, a purge how many it took', async () => {
  const { api } = await withMessages(['s.a', 's.b', 's.a', 's.a']);
  expect(await api.deleteSeq('S', 1)).toEqual({ kind: 'done', value: true });
  expect(await api.deleteSeq('S', 1)).toEqual({ kind: 'done', value: false });
  expect(await api.deleteSeq('S', 99)).toEqual({ kind: 'done', value: false });
  expect(await api.purge('S', { subject: 's.a', upToSeq: 4 })).toEqual({ kind: 'done', value: 1 });
  expect(found(await api.lastOf('S', 's.a'))?.seq).toBe(4);
  expect(await api.purge('S', { subject: 's.a' })).toEqual({ kind: 'done', value: 1 });
  expect(found(await api.lastOf('S', 's.b'))?.seq).toBe(2);
});

test('a stream that denies deletion refuses it as itself', async () => {
  const { api } = await withMessages(['s.a'], { deny_delete: true, deny_purge: true });
  expect(await api.deleteSeq('S', 1)).toMatchObject({ kind: 'refused', reason: 'rejected' });
  expect(await api.purge('S', { subject: 's.a' })).toMatchObject({ kind: 'refused' });
  expect(found(await api.atSeq('S', 1))?.seq).toBe(1);
});

test('stream info counts stored subjects on request', async () => {
  const { api } = await withMessages(['s.a', 's.b', 's.a']);
  const info = found(await api.streamInfo('S', { subjectsFilter: 's.*' }));
  expect(info.state.subjects).toEqual({ 's.a': 2, 's.b': 1 });
  expect(info.state.last_seq).toBe(3);
});

test('a consumer is created once, updated in place, deleted once', async () => {
  const { api } = await withMessages(['s.a']);
  const config = {
    durable_name: 'd',
    ack_policy: AckPolicy.Explicit,
    filter_subject: 's.a',
    ack_wait: 7e9,
  };
  expect(found(await api.consumerCreate('S', config)).config.filter_subject).toBe('s.a');
  expect(await api.consumerCreate('S', config)).toMatchObject({ kind: 'done' });
  expect(await api.consumerCreate('S', { ...config, ack_policy: AckPolicy.None })).toMatchObject({
    kind: 'refused',
    reason: 'conflict',
  });
  expect(await api.consumerUpdate('S', 'd', { max_ack_pending: 7 })).toMatchObject({
    kind: 'done',
  });
  const { max_ack_pending, ack_wait } = found(await api.consumerInfo('S', 'd')).config;
  expect([max_ack_pending, ack_wait]).toEqual([7, 7e9]);
  expect(await api.consumerUpdate('S', 'other', config)).toMatchObject({ reason: 'not-found' });
  expect(await api.consumerDelete('S', 'd')).toEqual({ kind: 'done', value: true });
  expect(await api.consumerDelete('S', 'd')).toEqual({ kind: 'done', value: false });
  expect(await api.consumerInfo('S', 'd')).toMatchObject({ kind: 'refused', reason: 'not-found' });
});

test('an account without JetStream is unknown, not absent', async () => {
  const nats = await broker({ jetstream: false });
  const api = new JetStreamApi(await link(nats.url));
  expect(await api.lastOf('S', 's')).toMatchObject({ kind: 'unknown' });
});

test('calls work again after the broker came back', async () => {
  const { api, l, nats } = await withMessages(['s.a']);
  await nats.restart();
  await eventually(() => l.connected && l.generation === 2);
  expect(found(await api.lastOf('S', 's.a'))?.seq).toBe(1);
});
