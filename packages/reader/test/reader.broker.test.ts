import { HEADER, handOverDurable } from '@plane3/protocol';
import { eventually, type NatsProc } from '@plane3/testkit';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { lifecycle, must, Space, startBroker, type Taken } from './broker.ts';

const BOB = `local.bob.${'b'.repeat(26)}`;
const EVE = `local.eve.${'e'.repeat(26)}`;
let nats: NatsProc;
let s: Space;
let made = 0;
beforeAll(async () => {
  nats = await startBroker();
});
afterAll(() => nats.stop());
beforeEach(async () => {
  s = await Space.make(nats, `s${++made}`);
  for (const m of [BOB, EVE]) s.member(m);
  const dlv = s.handOver();
  for (const m of [BOB, EVE]) must(await dlv.ensureDurable(m));
});
afterEach(() => s.close());

const first = <T>(list: readonly T[]): T => {
  const [x] = list;
  if (x === undefined) throw new Error('nothing there');
  return x;
};
const empty = (member: string) =>
  eventually(async () => (await s.inStore(member)).length === 0 || undefined);
const ids = (taken: readonly Taken[]) => taken.map((t) => t.entryId);

test('entries of an absent member are in its store and not within reach; its pull brings them, its ack removes them', async () => {
  const { reader } = await s.boot();
  const posts: string[] = [];
  for (let i = 0; i < 5; i++) {
    const e = await s.put(BOB);
    reader.noteStored(e);
    posts.push(e.entryId);
  }
  expect(await s.inHandOver(BOB)).toEqual([]);
  expect(await s.inStore(BOB)).toEqual(posts);
  expect(await reader.pendingOf(BOB)).toMatchObject({ value: { pending: 5, handedOver: 0 } });
  const taken = await s.pull(BOB, 5);
  expect(ids(taken)).toEqual(posts);
  expect(taken.map((t) => t.redelivered)).toEqual([false, false, false, false, false]);
  expect(await s.inStore(BOB)).toEqual(posts);
  await s.ack(taken);
  await empty(BOB);
  await eventually(async () => (await s.inHandOver(BOB)).length === 0 || undefined);
});

test('S7: killed between hand-over and confirm: no count rises by more than one, nothing is lost', async () => {
  const d1 = await s.boot();
  const posts = [];
  for (let i = 0; i < 6; i++) posts.push((await s.put(BOB)).entryId);
  const taken = await s.pull(BOB, 6);
  await d1.kill();
  await s.ack(taken.slice(0, 2)); // nobody hears it but the broker
  const d2 = await s.boot();
  expect(d2.reader.status().counters).toMatchObject({ confirmedAtStart: 2, adopted: 4 });
  await s.ack(taken.slice(2, 4)); // late acks of copies that the dead daemon handed over
  await eventually(async () => (await s.inStore(BOB)).length === 2 || undefined);
  expect(await s.inStore(BOB)).toEqual(posts.slice(4));
  await s.ack(taken.slice(4));
  await empty(BOB);
  expect(d2.reader.status().counters).toMatchObject({ handedOver: 0, confirmed: 6 });
});

test('killed with copies that nobody pulled: the next daemon takes them over as they are', async () => {
  const d1 = await s.boot();
  for (let i = 0; i < 3; i++) await s.put(BOB);
  d1.reader.attached(BOB, { forMs: 60_000 });
  await eventually(async () => (await s.inHandOver(BOB)).length === 3 || undefined);
  await d1.kill();
  await s.boot();
  const taken = await s.pull(BOB, 3);
  expect(taken.map((t) => t.handOver)).toEqual([1, 1, 1]);
  await s.ack(taken);
  await empty(BOB);
});

test('an ack that the broker would take for one confirms nothing without the stored time, with headers, or with another body', async () => {
  const { reader } = await s.boot();
  await s.put(BOB);
  const t = first(await s.pull(BOB, 1));
  const tokens = t.ackSubject.split('.');
  const other = [...tokens.slice(0, 7), String(BigInt(tokens[7] ?? '0') + 1n), ...tokens.slice(8)];
  s.link.nc.publish(other.join('.'), '');
  if (t.headers !== undefined) s.link.nc.publish(t.ackSubject, '', { headers: t.headers });
  s.link.nc.publish(t.ackSubject, 'any body');
  await s.link.nc.flush();
  await eventually(() => reader.status().counters.acksIgnored['another-copy'] === 1);
  await eventually(() => reader.status().counters.acksIgnored['foreign'] === 2);
  expect(await s.inStore(BOB)).toHaveLength(1);
  await s.ack([t]);
  await empty(BOB);
});

test('the broker refuses every publish that would have its own answer go to an ack subject', async () => {
  await s.boot();
  await s.put(BOB);
  await s.put(EVE);
  const bobs = first(await s.pull(BOB, 1));
  const eves = first(await s.pull(EVE, 1));
  const durable = handOverDurable(lifecycle(EVE));
  const pull = `$JS.API.CONSUMER.MSG.NEXT.${s.names.streams.dlv}.${durable}`;
  const denied: string[] = [];
  const undo = s.link.onDenied((d) => denied.push(d.operation));
  const tries: [string, string][] = [
    [pull, JSON.stringify({ batch: 1, no_wait: true })], // would answer 404
    [pull, JSON.stringify({ batch: 1, expires: 50e6 })], // would answer 408
    [eves.ackSubject, ''], // would answer an empty message without headers
  ];
  for (const [n, [subject, body]] of tries.entries()) {
    s.link.nc.publish(subject, body, { reply: bobs.ackSubject });
    await eventually(() => denied.length > n);
  }
  undo();
  const info = must(await s.api.consumerInfo(s.names.streams.dlv, handOverDurable(lifecycle(BOB))));
  expect(info.num_ack_pending).toBe(1);
  expect(await s.inStore(BOB)).toHaveLength(1);
});

test('a confirm that races a leave: each entry leaves once, nothing of the channel is within reach afterwards', async () => {
  const { reader } = await s.boot();
  for (let i = 0; i < 40; i++) await s.put(BOB);
  const taken = await s.pull(BOB, 40);
  s.memberships.set(BOB, 'general', 1, {
    kind: 'closed',
    incarnation: 'chat1',
    joinCursor: 0,
    leaveCursor: 1_000,
  });
  const acked = s.ack(taken.filter((_, i) => i % 2 === 0));
  const o = await reader.dispose({
    member: BOB,
    channel: 'general',
    generation: 1,
    reason: 'left',
  });
  await acked;
  must(o);
  expect(await s.inHandOver(BOB)).toEqual([]);
  await empty(BOB);
  const { counters } = reader.status();
  expect(counters.confirmed + (counters.disposed['left'] ?? 0)).toBe(40);
  expect(await s.pull(BOB, 1, 300)).toEqual([]);
});

test('narrowed rights: nothing is within reach once the change is answered, and the entry waits in the store', async () => {
  const { reader } = await s.boot();
  await s.put(BOB);
  reader.attached(BOB, { forMs: 60_000 });
  await eventually(async () => (await s.inHandOver(BOB)).length === 1 || undefined);
  s.rights.set(BOB, []);
  await reader.rightsChanged(BOB, 9);
  expect(await s.inHandOver(BOB)).toEqual([]);
  expect(await reader.settledTo(9, 100)).toBe(true);
  expect(await reader.pendingOf(BOB)).toMatchObject({ value: { withheld: { 'no-right': 1 } } });
  s.rights.set(BOB, ['general']);
  await reader.rightsChanged(BOB, 10);
  const [t] = await s.pull(BOB, 1);
  expect(t).toMatchObject({ handOver: 2, redelivered: true });
});

test('a recreated hand-over stream ends the term; the next one hands everything over again and repairs the durable', async () => {
  const d = await s.boot();
  await s.put(BOB);
  await s.pull(BOB, 1);
  await s.deleteStream(s.names.streams.dlv);
  await s.makeDlv(1_000);
  await eventually(() => d.events.length > 0);
  expect(d.events).toContain('hand-over-recreated');
  await d.start();
  d.reader.attached(BOB, { forMs: 60_000 });
  await eventually(() => d.reader.status().counters.durables.made === 1);
  const taken = await s.pull(BOB, 1);
  expect(taken).toHaveLength(1);
  await s.ack(taken);
  await empty(BOB);
});

test('a stale holder learns at its next hand-over that another one wrote the fence, and does nothing more', async () => {
  const d1 = await s.boot();
  const d2 = await s.boot();
  const e = await s.put(BOB);
  d1.reader.attached(BOB, { forMs: 60_000 });
  await eventually(() => d1.events.includes('fence-lost'));
  expect(d1.reader.status().phase).toBe('ended');
  expect(await s.inHandOver(BOB)).toEqual([]);
  d2.reader.attached(BOB, { forMs: 60_000 });
  expect(ids(await s.pull(BOB, 1))).toEqual([e.entryId]);
});

test('S135: the broker is killed and comes back: hand-over and confirmation go on without a restart', async () => {
  const own = await startBroker();
  const t = await Space.make(own, 'restart');
  try {
    t.member(BOB);
    must(await t.handOver().ensureDurable(BOB));
    const { reader } = await t.boot();
    await t.put(BOB);
    await t.ack(await t.pull(BOB, 1));
    await eventually(async () => (await t.inStore(BOB)).length === 0 || undefined);
    await own.restart();
    await eventually(() => t.link.connected);
    const e = await eventually(() => t.put(BOB));
    reader.noteStored(e);
    const taken = await eventually(
      async () => {
        const got = await t.pull(BOB, 1, 1_000);
        return got.length > 0 ? got : undefined;
      },
      { timeoutMs: 15_000 },
    );
    await t.ack(taken);
    await eventually(async () => (await t.inStore(BOB)).length === 0 || undefined);
  } finally {
    await t.close();
    await own.stop();
  }
});

test('a copy bears exactly the headers of the contract, and expires by itself', async () => {
  await s.boot();
  const e = await s.put(BOB, { signature: 'c2ln' });
  await s.pull(BOB, 1);
  const m = must(await s.api.lastOf(s.names.streams.dlv, `${s.names.prefix}.dlv.${BOB}`));
  expect(m?.header(HEADER.ttl)).toBe('120s');
  expect(m?.header(HEADER.signature)).toBe('c2ln');
  expect(m?.header(HEADER.seq)).toBe(String(e.entry.seq));
  expect(
    m
      ?.headerNames()
      .filter((n) => n.startsWith('Cotal'))
      .sort(),
  ).toEqual(['Cotal-Delivery-Frame', 'Cotal-Entry', 'Cotal-Hand-Over', 'Cotal-Seq', 'Cotal-Sig']);
  expect(Buffer.from(m?.body ?? []).equals(Buffer.from(e.body))).toBe(true);
});

test('S10, S182: a busy member gets the same copy again from the broker, and its ack counts', async () => {
  const { reader } = await s.boot();
  await s.put(BOB);
  await s.ack(await s.pull(BOB, 1), '-NAK');
  const again = await s.pull(BOB, 1);
  expect(again[0]?.handOver).toBe(1);
  await s.ack(again, '+ACK');
  await empty(BOB);
  expect(reader.status().counters).toMatchObject({ busy: 1, handedOver: 1 });
});

test('a backlog larger than the window flows in order while its neighbour is served', async () => {
  const { reader } = await s.boot({ windowEntries: 16 });
  const posts: string[] = [];
  for (let i = 0; i < 20 * 16; i++) posts.push((await s.put(BOB)).entryId);
  const seen: string[] = [];
  while (seen.length < posts.length) {
    const got = await s.pull(BOB, 16);
    expect(got.length).toBeGreaterThan(0);
    seen.push(...ids(got));
    await s.ack(got);
  }
  expect(seen).toEqual(posts);
  await empty(BOB);
  const e = await s.put(EVE);
  reader.noteStored(e);
  expect(ids(await s.pull(EVE, 1))).toEqual([e.entryId]);
});

test('stop takes unconfirmed copies back within its bound, and the entries stay', async () => {
  const { reader } = await s.boot();
  for (let i = 0; i < 3; i++) await s.put(BOB);
  await s.pull(BOB, 3);
  const began = performance.now();
  expect(await reader.stop()).toBe(3);
  expect(performance.now() - began).toBeLessThan(1_900);
  expect(await s.inHandOver(BOB)).toEqual([]);
  expect(await s.inStore(BOB)).toHaveLength(3);
});
