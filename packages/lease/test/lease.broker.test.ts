import { setTimeout as sleep } from 'node:timers/promises';
import { refusalError } from '@plane3/lease';
import { Bucket, JetStreamApi } from '@plane3/link';
import { eventually, type NatsProc, startNats, startRelay } from '@plane3/testkit';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type BrokerDaemon, BrokerRig, connect, makeBucket, need } from './broker-rig.ts';

const TTL_MS = 2_000;
let nats: NatsProc;
let n = 0;

beforeAll(async () => {
  nats = await startNats();
});
afterAll(async () => {
  await nats.stop();
});

async function withRig(ttlMs: number, f: (rig: BrokerRig) => Promise<void>): Promise<void> {
  const rig = await BrokerRig.make(nats.url, `s${++n}`, ttlMs);
  try {
    await f(rig);
  } finally {
    await rig.close();
  }
}

async function held(d: BrokerDaemon, waitMs = 0): Promise<number> {
  const from = performance.now();
  expect(await d.lease.acquire({ waitMs })).toMatchObject({ kind: 'held' });
  return performance.now() - from;
}

async function fenced(d: BrokerDaemon): Promise<{ inbox: number; dlv: number }> {
  const f = await d.lease.establishFence();
  if (f.kind !== 'fenced') throw new Error(JSON.stringify(f));
  return f;
}

describe.concurrent('one holder on a real broker', () => {
  test('after a kill the successor holds within TTL + about 1 s', async () => {
    await withRig(TTL_MS, async (rig) => {
      const first = await rig.daemon('first');
      await held(first);
      await first.die();
      const tookMs = await held(await rig.daemon('second'), 10_000);
      expect(tookMs).toBeLessThan(TTL_MS + 2_000);
      console.log(`takeover ${Math.round(tookMs)} ms after a kill, TTL ${TTL_MS} ms`);
    });
  });

  test('S37: after a release the successor holds at once', async () => {
    await withRig(30_000, async (rig) => {
      for (let round = 0; round < 10; round++) {
        const d = await rig.daemon(`d${round}`);
        expect(await held(d)).toBeLessThan(1_000);
        await sleep(round * 20);
        expect(await d.lease.release()).toEqual({ rowLeft: false });
        expect(await rig.row()).toBeUndefined();
      }
    });
  });

  test('S43: a row replaced by hand quiesces the holder within a second', async () => {
    await withRig(30_000, async (rig) => {
      const d = await rig.daemon('d');
      await held(d);
      const { inbox } = await fenced(d);
      expect(await d.lease.markReady()).toBe(true);
      expect((await rig.row())?.['ready']).toBe(true);
      expect((await d.store(inbox)).kind).toBe('done');
      const from = performance.now();
      await rig.replaceRow('by-hand');
      await eventually(() => d.quiesced.length > 0);
      expect((d.quiesced[0]?.atMs ?? Infinity) - from).toBeLessThan(1_000);
      expect(d.lease.trusted()).toBe(false);
      await eventually(() => d.lease.status().phase === 'lost');
      await d.lease.release();
      expect((await rig.row())?.['incarnation']).toBe('by-hand');
    });
  });

  test('S42: a removed row is re-taken, fenced and ready again', async () => {
    await withRig(TTL_MS, async (rig) => {
      const d = await rig.daemon('d');
      await held(d);
      const before = await fenced(d);
      need(await rig.bucket.remove('lease.0'));
      await eventually(() => d.notices.some((x) => x.kind === 'regained'));
      const after = await fenced(d);
      expect(await d.lease.markReady()).toBe(true);
      expect(await d.store(before.inbox)).toMatchObject({ reason: 'wrong-sequence' });
      expect((await d.store(after.inbox)).kind).toBe('done');
      const renewals = d.lease.status().renewals;
      await eventually(() => d.lease.status().renewals >= renewals + 5);
      expect(await rig.row()).toMatchObject({ incarnation: 'd', ready: true });
    });
  });

  test('a stale holder’s write with the old fence is refused by the broker', async () => {
    await withRig(TTL_MS, async (rig) => {
      const first = await rig.daemon('first');
      await held(first);
      const old = await fenced(first);
      await rig.replaceRow('ended');
      await eventually(() => first.lease.status().phase === 'lost');
      const second = await rig.daemon('second');
      await held(second, 10_000);
      expect((await first.store(old.inbox)).kind).toBe('done'); // nobody has fenced it off yet
      const now = await fenced(second);
      expect(await first.store(old.inbox)).toMatchObject({
        kind: 'refused',
        reason: 'wrong-sequence',
      });
      expect((await second.store(now.inbox)).kind).toBe('done');
    });
  });

  test('a mark that was purged away is noticed by a refused write and written anew', async () => {
    await withRig(TTL_MS, async (rig) => {
      const d = await rig.daemon('d');
      await held(d);
      const before = await fenced(d);
      need(
        await new JetStreamApi(rig.admin).purge(`INBOX_${rig.space}`, {
          subject: `${rig.space}.dinbox._fence.0`,
        }),
      );
      expect(await d.store(before.inbox)).toMatchObject({ reason: 'wrong-sequence' });
      d.lease.fenceRefused();
      expect(d.lease.trusted()).toBe(false);
      await eventually(() => d.notices.some((x) => x.kind === 'regained'));
      const after = await fenced(d);
      expect((await d.store(after.inbox)).kind).toBe('done');
    });
  });

  test('S105: creators race over tombstones and a deleter, and never two of them win', async () => {
    await withRig(30_000, async (rig) => {
      const host = { boot: 'here', pid: 1, start: '1' };
      const vandal = new Bucket(rig.admin, undefined, `lease_${rig.space}`);
      for (let round = 0; round < 30; round++) {
        const hostProbe = { self: () => host, judge: async () => 'alive' as const };
        const two = [
          await rig.daemon(`a${round}`, { hostProbe }),
          await rig.daemon(`b${round}`, { hostProbe }),
        ];
        // The vandal acts in some rounds only before the race, in others in the midst of it.
        const racing = two.map((d) =>
          d.lease.acquire().then((a) => ({ a, revision: d.lease.status().revision ?? 0 })),
        );
        if (round % 3 === 0) void vandal.remove('lease.0');
        const answers = await Promise.all(racing);
        const won = answers.filter(({ a }) => a.kind === 'held');
        if (round % 3 !== 0) expect(won).toHaveLength(1);
        for (const { a } of answers)
          if (a.kind === 'refused') expect(a.refusal.kind).toMatch(/^held-/);
        await Promise.all(two.map((d) => d.close()));
        need(await vandal.remove('lease.0'));
      }
    });
  }, 60_000);

  test('S49: delay and a stall shorter than the window cost nothing', async () => {
    await withRig(6_000, async (rig) => {
      const relay = await startRelay(nats.url);
      const d = await rig.daemon('d', { url: relay.url });
      relay.delay(150);
      await held(d);
      relay.hold();
      await sleep(2_500);
      relay.release();
      await sleep(4_000);
      expect(d.lease.status()).toMatchObject({ phase: 'held', doubts: 0 });
      expect(await rig.row()).toMatchObject({ incarnation: 'd' });
      relay.delay(0);
      await d.close();
      await relay.stop();
    });
  });

  test('a stall beyond the window: quiet by its own clock, then mine again', async () => {
    await withRig(TTL_MS, async (rig) => {
      const relay = await startRelay(nats.url);
      const d = await rig.daemon('d', { url: relay.url });
      await held(d);
      relay.hold();
      const from = performance.now();
      await eventually(() => d.quiesced.length > 0);
      expect(d.lease.trusted()).toBe(false);
      expect(performance.now() - from).toBeLessThan(TTL_MS + 1_000);
      expect(d.quiesced.map((q) => q.reason)).toEqual(['window-passed']);
      await sleep(1_000);
      relay.release();
      await eventually(() => d.notices.some((x) => x.kind === 'regained'));
      await d.close();
      await relay.stop();
    });
  });
});

describe.concurrent('buckets that do not keep the promise', () => {
  test('S45: no write right, no bucket and no broker are told apart', async () => {
    const broker = await startNats({
      config: `
        accounts { A: { jetstream: enabled, users: [
          { user: full, password: x },
          { user: low, password: x, permissions: {
            publish: { allow: ["$JS.API.>"] }, subscribe: { allow: [">"] } } } ] } }
        no_auth_user: low`,
    });
    try {
      const rig = new BrokerRig(broker.url, await connect(broker.url), 'x');
      const kind = async (d: BrokerDaemon): Promise<string> => {
        const a = await d.lease.acquire();
        if (a.kind !== 'refused') return a.kind;
        return refusalError(a.refusal, '$KV.lease_x.lease.0').code;
      };
      expect(await kind(await rig.daemon('d'))).toBe('stream-missing');
      await makeBucket(rig.admin, 'lease_x', TTL_MS);
      expect(await kind(await rig.daemon('d'))).toBe('permission-denied');
      const cut = await rig.daemon('d');
      await broker.kill();
      expect(await kind(cut)).toBe('broker-unreachable');
      await rig.close();
    } finally {
      await broker.stop();
    }
  });

  test('S97: a bucket that got its age later is proved by a key that really ends', async () => {
    const admin = await connect(nats.url);
    await makeBucket(admin, 'lease_later', 0);
    const rig = new BrokerRig(nats.url, admin, 'later');
    const d = await rig.daemon('d');
    const a = await d.lease.acquire();
    expect(a).toMatchObject({ refusal: { kind: 'wrong-settings' } });
    await makeBucket(admin, 'lease_later', TTL_MS, {}, 'UPDATE');
    await held(d);
    await eventually(() => d.lease.status().expiry === 'proved', { timeoutMs: 10_000 });
    await rig.close();
  });

  test('S107: an age with markers added later still ends rows, or the proof says so', async () => {
    const admin = await connect(nats.url);
    await makeBucket(admin, 'lease_marked', TTL_MS);
    const marked = { subject_delete_marker_ttl: 1e9, allow_msg_ttl: true, allow_rollup_hdrs: true };
    await makeBucket(admin, 'lease_marked', TTL_MS, marked, 'UPDATE');
    const rig = new BrokerRig(nats.url, admin, 'marked');
    const first = await rig.daemon('first');
    await held(first);
    await first.die();
    const tookMs = await held(await rig.daemon('second'), 10_000);
    expect(tookMs).toBeLessThan(TTL_MS + 2_000);
    await rig.close();
  });

  test('S109: writers all around it do not keep a dead row alive', async () => {
    await withRig(TTL_MS, async (rig) => {
      const busy = rig.bucket;
      let stop = false;
      const writing = (async () => {
        for (let i = 0; !stop; i++) {
          need(await busy.put(`lease.noise-${i % 50}`, new Uint8Array(8)));
          await sleep(4);
        }
      })();
      const first = await rig.daemon('first');
      await held(first);
      await first.die();
      const tookMs = await held(await rig.daemon('second'), 10_000);
      expect(tookMs).toBeLessThan(TTL_MS + 2_000);
      stop = true;
      await writing;
    });
  });
});

describe('a broker that restarts', () => {
  test('costs no lease, and the row is renewed afterwards', async () => {
    await withRig(TTL_MS, async (rig) => {
      const d = await rig.daemon('d');
      await held(d);
      const { inbox } = await fenced(d);
      await nats.restart();
      await eventually(() => d.link.connected && rig.admin.connected);
      const renewals = d.lease.status().renewals;
      await eventually(() => d.lease.status().renewals >= renewals + 3);
      expect(d.lease.trusted()).toBe(true);
      expect(await rig.row()).toMatchObject({ incarnation: 'd' });
      if (d.lease.status().doubts === 0) expect((await d.store(inbox)).kind).toBe('done');
      expect(d.notices.map((x) => x.kind)).not.toContain('lost');
    });
  });
});
