import { describe, expect, test } from 'vitest';
import { Rig } from './rig.ts';

const TTL_MS = 2_000;

describe('taking the lease', () => {
  test('a free lease is taken at once, and handlers are armed before the row is written', async () => {
    const rig = new Rig();
    const d = rig.daemon('d');
    const a = await d.acquire();
    expect(a).toMatchObject({ kind: 'held', how: 'created', ttlMs: TTL_MS });
    expect(rig.time.nowMs()).toBeLessThan(100);
    expect(d.log.indexOf('arm')).toBeLessThan(d.log.indexOf('write'));
    expect(rig.bucket.row).toMatchObject({ incarnation: 'inc-d', ready: false });
    expect(d.lease.trusted()).toBe(true);
  });

  test('when arming throws nothing has been written', async () => {
    const rig = new Rig();
    const d = rig.daemon('d');
    d.armed = () => {
      throw new Error('no handlers');
    };
    await expect(d.acquire()).rejects.toThrow('no handlers');
    expect(rig.bucket.row).toBeUndefined();
    expect(await d.lease.release()).toEqual({ rowLeft: false });
  });

  test('S45: every reason not to have it is told apart', async () => {
    const held = new Rig();
    const first = held.daemon('first');
    await first.acquire();
    held.verdicts.set(first.pid, 'alive');
    expect(await held.daemon('second').acquire()).toMatchObject({
      refusal: { kind: 'held-and-alive', incarnation: 'inc-first', host: { pid: first.pid } },
    });

    const remote = new Rig();
    remote.bucket.force(remote.foreignRow('elsewhere'));
    expect(await remote.daemon('d').acquire()).toMatchObject({
      refusal: { kind: 'held-and-not-answering', incarnation: 'elsewhere' },
    });

    for (const [fault, kind] of [
      ['permission-denied', 'permission-denied'],
      ['missing', 'bucket-missing'],
      ['lose-request', 'unreachable'],
    ] as const) {
      const rig = new Rig();
      const d = rig.daemon('d');
      d.fault = fault;
      expect(await d.acquire()).toMatchObject({ refusal: { kind } });
    }
  });

  test('a holder elsewhere that renews while it is watched is alive', async () => {
    const rig = new Rig();
    const first = rig.daemon('first');
    await first.acquire();
    const second = rig.daemon('second');
    const a = await second.acquire();
    expect(a).toMatchObject({ refusal: { kind: 'held-and-alive' } });
    expect(rig.time.nowMs()).toBeLessThan(TTL_MS);
  });

  test('a silent holder is refused with its age and the time that is left', async () => {
    const rig = new Rig();
    rig.bucket.force(rig.foreignRow('silent'));
    await rig.time.pass(300);
    const a = await rig.daemon('d').acquire();
    if (a.kind !== 'refused' || !('ageMs' in a.refusal)) throw new Error(JSON.stringify(a));
    expect(a.refusal.ageMs).toBeGreaterThan(1_000);
    expect(a.refusal.ageMs + a.refusal.expiresInMs).toBe(TTL_MS);
  });

  test('whoever waits takes over a silent holder when its row ends', async () => {
    const rig = new Rig();
    rig.bucket.force(rig.foreignRow('silent'));
    const a = await rig.daemon('d').acquire({ waitMs: 10_000 });
    expect(a).toMatchObject({ kind: 'held' });
    expect(rig.time.nowMs()).toBeLessThanOrEqual(TTL_MS + 200);
  });

  test('S109: a row that the broker never expires is superseded after a TTL of silence', async () => {
    const rig = new Rig();
    rig.bucket.expires = false;
    rig.bucket.force(rig.foreignRow('silent'));
    const a = await rig.daemon('d').acquire({ waitMs: 10_000 });
    expect(a).toMatchObject({ kind: 'held', how: 'superseded' });
    expect(rig.time.nowMs()).toBeLessThanOrEqual(TTL_MS + 500);
  });

  test('a holder proved dead on this host is superseded at once', async () => {
    const rig = new Rig();
    const first = rig.daemon('first');
    await first.acquire();
    first.fault = 'lose-request';
    rig.verdicts.set(first.pid, 'dead');
    const a = await rig.daemon('second').acquire();
    expect(a).toMatchObject({ kind: 'held', how: 'superseded' });
    expect(rig.time.nowMs()).toBeLessThan(300);
  });

  test('S96, S108: a bucket of other settings is refused with both numbers', async () => {
    const numbers = async (o: { ttlMs?: number; markerTtlMs?: number }, expectedTtlMs?: number) => {
      const d = new Rig(o).daemon('d', expectedTtlMs === undefined ? {} : { expectedTtlMs });
      const a = await d.acquire();
      return a.kind === 'refused' && 'detail' in a.refusal ? a.refusal : undefined;
    };
    for (const [o, expected, pattern] of [
      [{ ttlMs: 0 }, 30_000, /0 ms.*30000 ms/],
      [{ ttlMs: 1_000 }, undefined, /1000 ms.*2000 ms/],
      [{ ttlMs: 3_000 }, 30_000, /3000 ms.*30000 ms/],
      [{ ttlMs: 3_000, markerTtlMs: 60_000 }, undefined, /60000 ms.*3000 ms/],
    ] as const) {
      const refusal = await numbers(o, expected);
      expect(refusal?.kind).toBe('wrong-settings');
      expect(refusal?.detail).toMatch(pattern);
    }
  });
});

describe('the proof that rows end', () => {
  test('it does not delay the start and is told when it is there', async () => {
    const rig = new Rig({ ttlMs: 30_000 });
    const d = rig.daemon('d');
    await d.acquire();
    expect(rig.time.nowMs()).toBeLessThan(100);
    expect(d.lease.status().expiry).toBe('pending');
    await rig.time.pass(33_000);
    expect(d.lease.status().expiry).toBe('proved');
  });

  test('S97: a bucket that only says that it expires rows is told as broken', async () => {
    const rig = new Rig();
    rig.bucket.expires = false;
    const d = rig.daemon('d');
    await d.acquire();
    await rig.time.pass(5_000);
    expect(d.notices).toContainEqual({ kind: 'expiry', verdict: 'broken' });
  });

  test('S97: the next start on such a bucket is refused at once', async () => {
    const rig = new Rig();
    rig.bucket.expires = false;
    const first = rig.daemon('first');
    await first.acquire();
    await first.lease.release();
    await rig.time.pass(10_000);
    const asked = rig.time.nowMs();
    const second = await rig.daemon('second').acquire();
    expect(second).toMatchObject({ refusal: { kind: 'expiry-broken' } });
    expect(rig.time.nowMs() - asked).toBeLessThan(100);
  });
});

describe('keeping the lease', () => {
  test('it renews three times a TTL and becomes ready when asked', async () => {
    const rig = new Rig();
    const d = rig.daemon('d');
    await d.acquire();
    expect(await d.during(d.lease.markReady())).toBe(true);
    expect(rig.bucket.row?.ready).toBe(true);
    await rig.time.pass(10 * TTL_MS);
    expect(d.lease.status()).toMatchObject({ phase: 'held', ready: true, doubts: 0 });
    expect(d.lease.status().renewals).toBeGreaterThanOrEqual(29);
    expect(rig.bucket.row).toMatchObject({ incarnation: 'inc-d', ready: true });
  });

  test('an unanswered renewal that landed is read back and carries on', async () => {
    const rig = new Rig();
    const d = rig.daemon('d');
    await d.acquire();
    d.fault = 'lose-answer';
    await rig.time.pass(800);
    d.fault = undefined;
    await rig.time.pass(5 * TTL_MS);
    expect(d.lease.status()).toMatchObject({ phase: 'held', doubts: 0 });
    expect(d.kinds()).toEqual([]);
  });

  test('S49: a broker away for less than the window costs nothing', async () => {
    const rig = new Rig({ ttlMs: 30_000 });
    const d = rig.daemon('d');
    await d.acquire();
    await rig.time.pass(9_500);
    d.fault = 'lose-request';
    await rig.time.pass(8_000);
    expect(d.lease.trusted()).toBe(true);
    d.fault = undefined;
    await rig.time.pass(300_000);
    expect(d.lease.status()).toMatchObject({ phase: 'held', doubts: 0 });
  });

  test('S43: a row replaced by hand quiesces at once and loses the lease', async () => {
    const rig = new Rig({ ttlMs: 30_000 });
    const d = rig.daemon('d');
    await d.acquire();
    await rig.time.pass(1_000);
    rig.bucket.force(rig.foreignRow('other'));
    await rig.time.pass(1);
    expect(d.lease.trusted()).toBe(false);
    expect(d.log).toContain('quiesce row-taken');
    await rig.time.pass(100);
    expect(d.kinds()).toEqual(['doubt', 'lost']);
    expect(rig.bucket.row?.incarnation).toBe('other');
  });

  test('S40: it is quiet before it asks', async () => {
    const rig = new Rig();
    const d = rig.daemon('d');
    await d.acquire();
    let quiet = (): void => {};
    d.quiescing = new Promise((ok) => {
      quiet = ok;
    });
    d.log.length = 0;
    rig.bucket.force(rig.foreignRow('other'));
    await rig.time.pass(500);
    expect(d.log).toEqual(['quiesce row-taken']);
    quiet();
    await rig.time.pass(500);
    expect(d.log).toEqual(['quiesce row-taken', 'quiet', 'read']);
  });

  test('a quiesce that does not end loses the lease', async () => {
    const rig = new Rig();
    const d = rig.daemon('d');
    await d.acquire();
    d.quiescing = new Promise(() => {});
    rig.bucket.force(undefined);
    await rig.time.pass(6_000);
    expect(d.notices).toContainEqual(
      expect.objectContaining({ kind: 'lost', reason: 'quiesce-stuck' }),
    );
  });

  test('S41: my own untouched row is mine, a successor’s of the same credential is not', async () => {
    const rig = new Rig();
    const d = rig.daemon('d');
    await d.acquire();
    d.fault = 'lose-request';
    await rig.time.pass(1_850);
    expect(d.lease.trusted()).toBe(false);
    d.fault = undefined;
    await rig.time.pass(120);
    expect(d.notices).toContainEqual(expect.objectContaining({ kind: 'regained', how: 'adopted' }));

    rig.bucket.force({ ...rig.foreignRow('inc-d2'), holder: 'local.delivery' });
    await rig.time.pass(100);
    expect(d.lease.status().phase).toBe('lost');
    expect(rig.bucket.row?.incarnation).toBe('inc-d2');
  });

  test('S42: a re-created row becomes ready again and keeps being renewed', async () => {
    const rig = new Rig();
    const d = rig.daemon('d');
    await d.acquire();
    await d.during(d.lease.markReady());
    rig.bucket.force(undefined);
    await rig.time.pass(100);
    expect(d.notices).toContainEqual(expect.objectContaining({ kind: 'regained', how: 'created' }));
    expect(rig.bucket.row?.ready).toBe(false);
    expect(await d.during(d.lease.markReady())).toBe(true);
    const before = d.lease.status().renewals;
    await rig.time.pass(2 * TTL_MS);
    expect(d.lease.status().renewals - before).toBeGreaterThanOrEqual(5);
    expect(rig.bucket.row).toMatchObject({ incarnation: 'inc-d', ready: true });
  });

  test('S167: after a stall longer than the TTL nothing is trusted, before any event runs', async () => {
    const rig = new Rig();
    const d = rig.daemon('d');
    await d.acquire();
    rig.time.jump(1.5 * TTL_MS);
    expect(d.lease.trusted()).toBe(false);
    rig.bucket.force(rig.foreignRow('other'));
    d.log.length = 0;
    await rig.time.pass(100);
    expect(d.log[0]).toMatch(/^quiesce/);
    expect(d.kinds()).toEqual(['doubt', 'lost']);
  });
});

describe('the fence', () => {
  test('both streams are marked, and a later renewal proves the term', async () => {
    const rig = new Rig();
    const d = rig.daemon('d');
    await d.acquire();
    const f = await d.during(d.lease.establishFence());
    expect(f).toMatchObject({ kind: 'fenced', inbox: 1, dlv: 1 });
    expect(d.lease.status().renewals).toBe(1);
    expect(rig.inbox.store('copy', 1)).toBe(true);
  });

  test('a stale holder is told so and leaves the successor’s mark alone', async () => {
    const rig = new Rig();
    const first = rig.daemon('first');
    await first.acquire();
    const second = rig.daemon('second');
    rig.verdicts.set(first.pid, 'dead');
    await second.acquire();
    const fence = await second.during(second.lease.establishFence());
    expect(fence).toMatchObject({ kind: 'fenced', inbox: 1 });
    expect(await first.during(first.lease.establishFence())).toMatchObject({ kind: 'refused' });
    expect(rig.inbox.store('by second', 1)).toBe(true);
  });

  test('after a regained term the old sequences are worth nothing', async () => {
    const rig = new Rig();
    const d = rig.daemon('d');
    await d.acquire();
    const before = await d.during(d.lease.establishFence());
    rig.bucket.force(undefined);
    await rig.time.pass(100);
    const after = await d.during(d.lease.establishFence());
    if (before.kind !== 'fenced' || after.kind !== 'fenced') throw new Error('not fenced');
    expect(rig.inbox.store('old', before.inbox)).toBe(false);
    expect(rig.inbox.store('new', after.inbox)).toBe(true);
  });

  test('a bucket whose numbering began anew does not lock the fence for ever', async () => {
    const rig = new Rig();
    await rig.inbox.write({ incarnation: 'of an older bucket', leaseRevision: 9_999, at: 0 }, 0);
    const d = rig.daemon('d');
    await d.acquire();
    expect(await d.during(d.lease.establishFence())).toMatchObject({ kind: 'fenced', inbox: 2 });
  });
});

describe('giving it back', () => {
  test('S37: the successor has it at once, whenever the signal came', async () => {
    for (let ms = 0; ms < 2_500; ms += 50) {
      const rig = new Rig({ ttlMs: 30_000 });
      const d = rig.daemon('d');
      await d.acquire();
      await rig.time.pass(ms);
      expect(await d.during(d.lease.release())).toEqual({ rowLeft: false });
      const at = rig.time.nowMs();
      expect(await rig.daemon('next').acquire()).toMatchObject({ kind: 'held' });
      expect(rig.time.nowMs() - at).toBeLessThan(100);
    }
  });

  test('S38: a release while the row is being written releases it', async () => {
    const rig = new Rig();
    const d = rig.daemon('d');
    const acquiring = d.lease.acquire();
    await Promise.resolve();
    const released = d.lease.release();
    expect(await d.during(acquiring)).toMatchObject({ refusal: { kind: 'cancelled' } });
    expect(await d.during(released)).toEqual({ rowLeft: false });
    await rig.time.pass(500);
    expect(rig.bucket.row).toBeUndefined();
  });

  test('S38: a row whose creation was not answered is released too', async () => {
    const rig = new Rig();
    const d = rig.daemon('d');
    d.onWrite = () => {
      d.fault = 'lose-answer';
    };
    const a = d.lease.acquire();
    await rig.time.pass(50);
    expect(rig.bucket.row?.incarnation).toBe('inc-d');
    d.fault = undefined;
    expect(await d.during(d.lease.release())).toEqual({ rowLeft: false });
    expect(await a).toMatchObject({ kind: 'refused' });
    expect(rig.bucket.row).toBeUndefined();
  });

  test('it never removes another’s row', async () => {
    const rig = new Rig();
    const d = rig.daemon('d');
    await d.acquire();
    rig.bucket.force(rig.foreignRow('other'));
    expect(await d.during(d.lease.release())).toEqual({ rowLeft: false });
    expect(rig.bucket.row?.incarnation).toBe('other');
  });

  test('without an answer it ends within its bound and says that the row may be left', async () => {
    const rig = new Rig();
    const d = rig.daemon('d');
    await d.acquire();
    d.fault = 'lose-request';
    const at = rig.time.nowMs();
    expect(await d.during(d.lease.release())).toEqual({ rowLeft: true });
    expect(rig.time.nowMs() - at).toBeLessThanOrEqual(550);
  });

  test('a second release answers like the first', async () => {
    const rig = new Rig();
    const d = rig.daemon('d');
    await d.acquire();
    const both = await d.during(Promise.all([d.lease.release(), d.lease.release()]));
    expect(both).toEqual([{ rowLeft: false }, { rowLeft: false }]);
  });
});
