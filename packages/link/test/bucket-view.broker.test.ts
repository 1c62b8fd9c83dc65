import { Bucket, BucketView, type Link, type ViewState } from '@plane3/link';
import { eventually, type NatsProc } from '@plane3/testkit';
import { expect, test } from 'vitest';
import { later } from './support/cleanup.ts';
import { apiCall, broker, createBucket, link, mesh, relayTo, text, utf8 } from './support/links.ts';

interface World {
  readonly nats: NatsProc;
  /** Makes changes; not the one that the view uses. */
  readonly admin: Link;
  readonly b: Bucket;
  readonly l: Link;
  readonly view: BucketView<string>;
  consumers(): Promise<number>;
  contents(): Record<string, string>;
}

const parse = (bytes: Uint8Array): string | undefined => {
  const value = text(bytes);
  return value === 'bad' ? undefined : value;
};

async function world(
  o: {
    readonly through?: (url: string) => Promise<string>;
    readonly keyFilter?: string;
    readonly bucket?: Record<string, unknown>;
  } = {},
): Promise<World> {
  const nats = await broker();
  const admin = await link(nats.url);
  await createBucket(admin, 'b', o.bucket);
  const l = await link((await o.through?.(nats.url)) ?? nats.url, { pingIntervalMs: 60_000 });
  const view = later(
    new BucketView<string>(l, 'b', {
      parse,
      checkEveryMs: 100,
      freshnessMs: 600,
      ...(o.keyFilter === undefined ? {} : { keyFilter: o.keyFilter }),
    }),
    (v) => v.stop(),
  );
  return {
    nats,
    admin,
    b: new Bucket(admin, undefined, 'b'),
    l,
    view,
    consumers: async () => {
      const info = (await apiCall(admin, 'STREAM.INFO.KV_b', {})) as {
        state: { consumer_count: number };
      };
      return info.state.consumer_count;
    },
    contents: () => Object.fromEntries([...view.entries()].map(([k, r]) => [k, r.value])),
  };
}

const put = async (b: Bucket, key: string, value: string): Promise<number> => {
  const o = await b.put(key, utf8(value));
  if (o.kind !== 'done') throw new Error(JSON.stringify(o));
  return o.value;
};

test('everything is loaded before start answers, and followed afterwards', async () => {
  const w = await world();
  for (let i = 0; i < 300; i++) await put(w.b, `k.${i % 100}`, String(i));
  await w.b.remove('k.0');
  expect(w.view.state).toBe('loading');
  expect(await w.view.start()).toEqual({ kind: 'done', value: undefined });
  expect(w.view.state).toBe('current');
  expect(w.view.size).toBe(99);
  expect(w.view.get('k.1')).toEqual({ value: '201', revision: 202 });
  expect(w.view.get('k.0')).toBeUndefined();
  expect(w.view.revision).toBe(301);
  const changes: unknown[] = [];
  w.view.onChange((...change) => changes.push(change));
  const revision = await put(w.b, 'k.0', 'new');
  expect(await w.view.waitFor(revision, 5_000)).toBe(true);
  await w.b.remove('k.1');
  expect(await w.view.waitFor(revision + 1, 5_000)).toBe(true);
  expect(changes).toEqual([
    ['k.0', 'new', 302],
    ['k.1', undefined, 303],
  ]);
  expect(await w.consumers()).toBe(1);
});

test('an empty bucket is current; a missing one is refused and leaves nothing', async () => {
  const w = await world();
  expect(await w.view.start()).toMatchObject({ kind: 'done' });
  expect(w.view).toMatchObject({ state: 'current', size: 0, revision: 0 });
  const none = new BucketView(w.l, 'none', { parse });
  expect(await none.start()).toMatchObject({ kind: 'refused', reason: 'not-found' });
  expect(none.state).toBe('loading');
  expect(await none.waitFor(0, 50)).toBe(false);
});

test('a denied right is permission-denied at once, whichever it is', async () => {
  const m = await mesh();
  const all = await m.mint();
  const admin = await link(m.nats.url, { credentials: () => all.creds });
  await createBucket(admin, 'b');
  const api = (name: string) => `$JS.API.${name}`;
  const rights = ['STREAM.INFO.KV_b', 'CONSUMER.CREATE.KV_b.>'];
  for (const left of rights) {
    const { creds } = await m.mint({ pub: rights.filter((r) => r !== left).map(api) });
    const l = await link(m.nats.url, { credentials: () => creds });
    const beganMs = performance.now();
    expect(await new BucketView(l, 'b', { parse }).start(), left).toMatchObject({
      reason: 'permission-denied',
    });
    expect(performance.now() - beganMs).toBeLessThan(1_000);
  }
  const enough = [...rights, 'CONSUMER.DELETE.KV_b.*', 'CONSUMER.INFO.KV_b.*'].map(api);
  const { seed, userKey } = await m.mint();
  const { creds } = await m.mint({ seed, pub: enough, sub: [`_INBOX_${userKey}.>`] });
  const before = m.nats.violations().length;
  const l = await link(m.nats.url, { credentials: () => creds });
  const view = new BucketView(l, 'b', { parse, keyFilter: 'x.*' });
  expect(await view.start()).toMatchObject({ kind: 'done' });
  await view.stop();
  expect(m.nats.violations().slice(before)).toEqual([]);
});

test('a filter holds its keys only, and others are proved to change nothing', async () => {
  const w = await world({ keyFilter: 'x.*' });
  await put(w.b, 'x.1', 'a');
  await put(w.b, 'y.1', 'b');
  await w.view.start();
  expect(w.contents()).toEqual({ 'x.1': 'a' });
  const revision = await put(w.b, 'y.2', 'c');
  expect(await w.view.waitFor(revision, 5_000)).toBe(true);
  expect(w.view.state).toBe('current');
  expect(w.view.loads).toBe(1);
});

test('an unreadable row and one that the broker made are absent, and counted', async () => {
  const w = await world();
  await put(w.b, 'k', 'good');
  await put(w.b, 'l', 'good');
  await w.view.start();
  await put(w.b, 'k', 'bad');
  // The trick: a publish whose acknowledgement is stored as the row.
  await apiCall(w.admin, 'STREAM.CREATE.T', { name: 'T', subjects: ['t'], allow_direct: true });
  w.admin.publish('t', utf8('evil'));
  await w.admin.flush();
  w.admin.publish('$JS.API.DIRECT.GET.T', utf8('{"seq":1}'), { reply: '$KV.b.l' });
  expect(await w.view.waitFor(4, 5_000)).toBe(true);
  expect(w.contents()).toEqual({});
  expect(w.view.foreign).toBe(2);
  await eventually(() => w.view.state === 'current');
});

test('a recreated bucket is noticed and loaded anew, with every difference told', async () => {
  const w = await world();
  await put(w.b, 'old', '1');
  await put(w.b, 'both', '1');
  await put(w.b, 'both', '2');
  await w.view.start();
  const changes: unknown[] = [];
  w.view.onChange((key, value) => changes.push([key, value]));
  await apiCall(w.admin, 'STREAM.DELETE.KV_b', {});
  await eventually(() => w.view.state === 'stale');
  expect(w.contents()).toEqual({ old: '1', both: '2' }); // of then, and said to be
  await createBucket(w.admin, 'b');
  await put(w.b, 'both', '3');
  await put(w.b, 'new', '1');
  await eventually(() => w.view.state === 'current' && w.view.size === 2, { timeoutMs: 15_000 });
  expect(w.contents()).toEqual({ both: '3', new: '1' });
  expect(w.view.revision).toBe(2);
  await eventually(() => changes.length >= 3);
  expect(changes).toContainEqual(['old', undefined]);
  expect(await w.consumers()).toBe(1);
});

test('a bucket that is recreated between two checks is noticed too', async () => {
  const w = await world();
  for (let i = 0; i < 5; i++) await put(w.b, `k${i}`, '1');
  await w.view.start();
  await apiCall(w.admin, 'STREAM.DELETE.KV_b', {});
  await createBucket(w.admin, 'b');
  for (let i = 0; i < 5; i++) await put(w.b, `k${i}`, '2');
  await eventually(() => w.contents()['k4'] === '2', { timeoutMs: 15_000 });
  expect(w.view.loads).toBeGreaterThan(1);
});

test('a deleted consumer is noticed and replaced, never by two', async () => {
  const w = await world();
  await put(w.b, 'k', '1');
  await w.view.start();
  const list = (await apiCall(w.admin, 'CONSUMER.NAMES.KV_b', {})) as { consumers: string[] };
  await apiCall(w.admin, `CONSUMER.DELETE.KV_b.${list.consumers[0]}`, {});
  const revision = await put(w.b, 'k', '2');
  expect(await w.view.waitFor(revision, 10_000)).toBe(true);
  expect(w.contents()).toEqual({ k: '2' });
  expect(w.view.lastLoss).toBe('consumer gone');
  expect(await w.consumers()).toBe(1);
});

test('a broker restart loses the consumer, and the view catches up', async () => {
  const w = await world();
  await put(w.b, 'k', '1');
  await put(w.b, 'gone', '1');
  await w.view.start();
  await w.nats.restart();
  await eventually(() => w.admin.connected);
  await put(w.b, 'k', '2');
  const removed = await w.b.remove('gone');
  const revision = removed.kind === 'done' ? removed.value : 0;
  expect(await w.view.waitFor(revision, 10_000)).toBe(true);
  expect(w.contents()).toEqual({ k: '2' });
  await eventually(() => w.view.state === 'current');
  expect(await w.consumers()).toBe(1);
});

test('rows that vanish without a marker vanish from the view', async () => {
  const w = await world();
  await put(w.b, 'stays', '1');
  await put(w.b, 'purged', '1');
  await put(w.b, 'last', '1');
  await w.view.start();
  await apiCall(w.admin, 'STREAM.PURGE.KV_b', { filter: '$KV.b.purged' });
  await eventually(() => w.view.size === 2);
  expect(w.contents()).toEqual({ stays: '1', last: '1' });
  expect(w.view.lastLoss).toBe('rows vanished');
});

test('a stalled connection makes it stale in time, and the contents stay', async () => {
  let relay: Awaited<ReturnType<typeof relayTo>> | undefined;
  const w = await world({
    through: async (url) => {
      relay = await relayTo(url);
      return relay.url;
    },
  });
  const states: ViewState[] = [];
  w.view.onState((s) => states.push(s));
  await put(w.b, 'k', '1');
  await w.view.start();
  relay?.hold();
  const revision = await put(w.b, 'k', '2');
  await eventually(() => w.view.state === 'stale', { timeoutMs: 5_000 });
  expect(w.contents()).toEqual({ k: '1' });
  expect(await w.view.waitFor(revision, 100)).toBe(false);
  expect(performance.now() - w.view.currentAsOfMs).toBeGreaterThan(600);
  relay?.release();
  expect(await w.view.waitFor(revision, 10_000)).toBe(true);
  await eventually(() => w.view.state === 'current', { timeoutMs: 15_000 });
  expect(w.contents()).toEqual({ k: '2' });
  expect(states.slice(0, 2)).toEqual(['current', 'stale']);
  expect(await w.consumers()).toBe(1);
});

test('messages lost on the way are noticed, whatever the connection says', async () => {
  let relay: Awaited<ReturnType<typeof relayTo>> | undefined;
  const w = await world({
    through: async (url) => {
      relay = await relayTo(url);
      return relay.url;
    },
  });
  await w.view.start();
  for (let round = 1; round <= 3; round++) {
    relay?.drop('toClient'); // breaks the protocol's framing or loses whole messages
    await put(w.b, 'k', `lost ${round}`);
    await put(w.b, `l${round}`, 'lost');
    relay?.pass('toClient');
    const revision = await put(w.b, 'k', `seen ${round}`);
    expect(await w.view.waitFor(revision, 15_000)).toBe(true);
    expect(w.view.get('k')?.value).toBe(`seen ${round}`);
    expect(w.view.get(`l${round}`)?.value).toBe('lost');
  }
  expect(await w.consumers()).toBe(1);
});

test('under constant writing it stays current, with one load and one consumer', async () => {
  const w = await world();
  await w.view.start();
  let writing = true;
  const writer = (async () => {
    let last = 0;
    for (let i = 0; writing; i++) last = await put(w.b, `k${i % 50}`, String(i));
    return last;
  })();
  const seen = new Set<ViewState>();
  const end = performance.now() + 1_500;
  await eventually(() => {
    seen.add(w.view.state);
    return performance.now() > end;
  });
  writing = false;
  expect(await w.view.waitFor(await writer, 5_000)).toBe(true);
  expect([...seen]).toEqual(['current']);
  expect(w.view.loads).toBe(1);
  expect(await w.consumers()).toBe(1);
});

test('while it cannot load it backs off, and one load is made at a time', async () => {
  const w = await world();
  await put(w.b, 'k', '1');
  await w.view.start();
  await apiCall(w.admin, 'STREAM.DELETE.KV_b', {});
  await eventually(() => w.view.loads >= 4, { timeoutMs: 15_000 });
  const [loads, atMs] = [w.view.loads, performance.now()];
  await eventually(() => w.view.loads >= loads + 1, { timeoutMs: 15_000 });
  expect(performance.now() - atMs).toBeGreaterThan(200);
  expect(w.contents()).toEqual({ k: '1' });
});

test('stopping leaves no consumer and no subscription, and wakes who waits', async () => {
  const w = await world();
  await w.view.start();
  const waiting = w.view.waitFor(99, 60_000);
  await w.view.stop();
  expect(await waiting).toBe(false);
  expect(w.view.state).toBe('stopped');
  expect(await w.consumers()).toBe(0);
  await w.view.stop();
});
