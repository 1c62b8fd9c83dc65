import { JetStreamApi, type Link, type PublishAnswer, Publisher } from '@plane3/link';
import { eventually } from '@plane3/testkit';
import { expect, test } from 'vitest';
import { broker, createStream, link, mesh, relayTo, utf8 } from './support/links.ts';

const id = (i: number | string) => [['Nats-Msg-Id', String(i)]] as const;

async function withStream(
  o: Record<string, unknown> = {},
): Promise<{ l: Link; nats: Awaited<ReturnType<typeof broker>> }> {
  const nats = await broker();
  const l = await link(nats.url);
  await createStream(l, 'S', { subjects: ['s.>'], ...o });
  return { l, nats };
}

test('a stored publish answers stream and sequence, with every header as given', async () => {
  const { l } = await withStream();
  const headers = [
    ['Cotal-Seq', '7'],
    ['x-lower', 'ü'],
    ['Twice', '1'],
    ['Twice', '2'],
  ] as const;
  expect(await new Publisher(l).publish('s.a', utf8('body'), headers)).toEqual({
    kind: 'done',
    value: { stream: 'S', seq: 1, duplicate: false },
  });
  const stored = await new JetStreamApi(l).lastOf('S', 's.a');
  if (stored.kind !== 'done' || stored.value === undefined) throw new Error('not stored');
  expect(stored.value.headerNames()).toEqual(['Cotal-Seq', 'x-lower', 'Twice', 'Twice']);
  expect(stored.value.header('x-lower')).toBe('ü');
  expect(stored.value.header('X-Lower')).toBeUndefined();
});

test('a repeated id is said to be a duplicate, with the sequence of the first', async () => {
  const { l } = await withStream();
  const p = new Publisher(l);
  await p.publish('s.a', utf8('1'), id('x'));
  expect(await p.publish('s.a', utf8('2'), id('x'))).toMatchObject({
    kind: 'done',
    value: { seq: 1, duplicate: true },
  });
});

test.each([
  ['wrong-sequence', {}, [['Nats-Expected-Last-Subject-Sequence', '9']], 1, 's.a'],
  ['store-full', { max_msgs: 1, discard: 'new' }, [], 1, 's.a'],
  ['store-full', { max_bytes: 200, discard: 'new' }, [], 150, 's.a'],
  ['too-large', { max_msg_size: 100 }, [], 101, 's.a'],
  ['no-stream', {}, [], 1, 'elsewhere'],
  ['rejected', {}, [['Nats-Expected-Last-Msg-Id', 'no']], 1, 's.a'],
] as const)('%s is a refusal of its own', async (reason, config, headers, bytes, subject) => {
  const { l } = await withStream(config);
  const p = new Publisher(l);
  await p.publish('s.a', utf8('first'), undefined);
  expect(await p.publish(subject, new Uint8Array(bytes), headers)).toMatchObject({
    kind: 'refused',
    reason,
  });
  expect(p.open).toBe(0);
});

test('what the broker would not take at all is refused before it is sent', async () => {
  const { l } = await withStream();
  const p = new Publisher(l);
  const before = l.nc.stats().outMsgs;
  const tooLarge = await p.publish('s.a', new Uint8Array(l.maxPayload), id(1));
  expect(tooLarge).toMatchObject({ kind: 'refused', reason: 'too-large' });
  for (const header of [
    ['A', 'b\r\nNats-Rollup: all'],
    ['A\n', 'b'],
    ['A:', 'b'],
  ] as const)
    expect(await p.publish('s.a', utf8(''), [header])).toMatchObject({
      kind: 'refused',
      reason: 'rejected',
    });
  expect(l.nc.stats().outMsgs).toBe(before);
  expect(await p.publish('s.a', new Uint8Array(l.maxPayload - 40), id(1))).toMatchObject({
    kind: 'done',
  });
});

test('a denied subject is refused well before the timeout, the others go on', async () => {
  const m = await mesh();
  const all = await m.mint();
  const admin = await link(m.nats.url, { credentials: () => all.creds });
  await createStream(admin, 'S', { subjects: ['s.>'] });
  const { creds } = await m.mint({ pub: ['s.ok'] });
  const l = await link(m.nats.url, { credentials: () => creds });
  const p = new Publisher(l);
  const beganMs = performance.now();
  const [denied, fine] = await Promise.all([
    p.publish('s.no', utf8(''), undefined),
    p.publish('s.ok', utf8(''), undefined),
  ]);
  expect(denied).toMatchObject({ kind: 'refused', reason: 'permission-denied', detail: 's.no' });
  expect(fine).toMatchObject({ kind: 'done' });
  expect(performance.now() - beganMs).toBeLessThan(1_000);
});

test('a denied reply inbox is noticed: nothing is taken for stored', async () => {
  const m = await mesh();
  const { creds } = await m.mint({ sub: ['nothing'] });
  const l = await link(m.nats.url, { credentials: () => creds });
  const p = new Publisher(l);
  await l.flush();
  const beganMs = performance.now();
  const first = await p.publish('s.a', utf8(''), undefined);
  expect(first.kind).toMatch(/unknown|refused/); // sent before the denial was heard, or after
  const second = await p.publish('s.a', utf8(''), undefined);
  expect(second).toMatchObject({ kind: 'refused', reason: 'permission-denied' });
  expect(performance.now() - beganMs).toBeLessThan(1_000);
});

test('every open publish answers unknown once when the broker dies', async () => {
  const { l, nats } = await withStream();
  const p = new Publisher(l);
  nats.pause();
  const answers: PublishAnswer[] = [];
  for (let i = 0; i < 500; i++) p.publishWith('s.a', utf8('x'), id(i), (o) => answers.push(o));
  expect(p.open).toBe(500);
  await nats.kill();
  await eventually(() => answers.length === 500);
  expect(new Set(answers.map((a) => a.kind))).toEqual(new Set(['unknown']));
  expect(p.open).toBe(0);
  expect(await p.publish('s.a', utf8('x'), undefined)).toEqual({
    kind: 'unknown',
    cause: 'not-sent',
  });
  await nats.restart();
  await eventually(() => l.connected);
  expect(await p.publish('s.a', utf8('x'), id(0))).toMatchObject({ kind: 'done' });
  expect(answers).toHaveLength(500);
});

test('no answer is unknown after the timeout, and a late one counts for nothing', async () => {
  const { nats, l: setup } = await withStream();
  const relay = await relayTo(nats.url);
  const l = await link(relay.url);
  const p = new Publisher(l, { timeoutMs: 200 });
  relay.hold('toClient');
  expect(await p.publish('s.a', utf8('1'), id('a'))).toEqual({ kind: 'unknown', cause: 'timeout' });
  relay.release('toClient');
  expect(await p.publish('s.a', utf8('1'), id('a'))).toMatchObject({
    kind: 'done',
    value: { seq: 1, duplicate: true }, // it had been stored: unknown was the truth
  });
  expect(setup.connected).toBe(true);
});

test('close answers every open one, and the window is kept by room()', async () => {
  const { l, nats } = await withStream();
  const p = new Publisher(l, { windowMax: 4 });
  nats.pause();
  const answers: PublishAnswer[] = [];
  const push = (): void => p.publishWith('s.a', utf8(''), undefined, (o) => answers.push(o));
  for (let i = 0; i < 4; i++) push();
  let had = false;
  const room = p.room().then(() => {
    had = true;
  });
  for (let i = 0; i < 8; i++) push(); // beyond twice the window nothing is sent
  expect(p.open).toBe(8);
  expect(answers).toHaveLength(0); // never before the call returned
  await eventually(() => answers.length === 4);
  expect(answers[0]).toEqual({ kind: 'unknown', cause: 'window full' });
  expect(had).toBe(false);
  p.close();
  await room;
  expect(answers).toHaveLength(12);
  expect(p.open).toBe(0);
  nats.resume();
});

test('room lets one in for each place that became free', async () => {
  const { l } = await withStream();
  const p = new Publisher(l, { windowMax: 16 });
  let most = 0;
  let answered = 0;
  for (let i = 0; i < 2_000; i++) {
    await p.room();
    p.publishWith('s.a', utf8('x'), undefined, () => answered++);
    most = Math.max(most, p.open);
  }
  await eventually(() => answered === 2_000);
  expect(most).toBeLessThanOrEqual(16);
});

test('a callback that publishes again is served, and several publishers share a link', async () => {
  const { l } = await withStream();
  const [a, b] = [new Publisher(l), new Publisher(l)];
  const seqs = await new Promise<number[]>((ok) => {
    const got: number[] = [];
    const next = (p: Publisher) => (o: PublishAnswer) => {
      if (o.kind === 'done') got.push(o.value.seq);
      if (got.length === 4) ok(got);
      else p.publishWith('s.a', utf8(''), undefined, next(p === a ? b : a));
    };
    a.publishWith('s.a', utf8(''), undefined, next(a));
  });
  expect(seqs).toEqual([1, 2, 3, 4]);
  a.close();
  expect(await b.publish('s.a', utf8(''), undefined)).toMatchObject({ kind: 'done' });
});
