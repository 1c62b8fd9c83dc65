import assert from 'node:assert/strict';
import type { Outcome } from '@plane3/protocol';
import type { StoredRow } from '../model.ts';
import type { LeaseRowPort, RowNotice } from '../ports.ts';

/** A fresh bucket of 2 s age for each case, and clients of it. */
export interface RowHarness {
  /** One more client of the same bucket. */
  open(): Promise<LeaseRowPort>;
  /** Really passes this time, on whatever clock the bucket ages by. */
  pass(ms: number): Promise<void>;
  /** Waits until the condition holds, at most a second of that clock. */
  until(condition: () => boolean): Promise<void>;
  close(): Promise<void>;
}

export interface RowCase {
  readonly name: string;
  run(make: () => Promise<RowHarness>): Promise<void>;
}

export const CONTRACT_TTL_MS = 2_000;

const sampleRow = (incarnation: string, attemptMs = 1): StoredRow => ({
  holder: 'local.delivery',
  incarnation,
  since: 1,
  ready: false,
  host: { boot: 'boot', pid: 1, start: '1' },
  attemptMs,
});

export function value<T, R extends string>(o: Outcome<T, R>): T {
  assert.equal(o.kind, 'done', JSON.stringify(o));
  return (o as Extract<typeof o, { kind: 'done' }>).value;
}

const isConflict = (o: Outcome<unknown>): void => {
  assert.equal(o.kind, 'refused', JSON.stringify(o));
  assert.equal((o as Extract<typeof o, { kind: 'refused' }>).reason, 'conflict');
};

const given = (
  name: string,
  body: (a: LeaseRowPort, b: LeaseRowPort, h: RowHarness) => Promise<void>,
): RowCase => ({
  name,
  run: async (make) => {
    const h = await make();
    try {
      await body(await h.open(), await h.open(), h);
    } finally {
      await h.close();
    }
  },
});

export const rowContract: readonly RowCase[] = [
  given('the TTL is what the bucket is configured for', async (a) => {
    assert.equal(value(await a.settings()).ttlMs, CONTRACT_TTL_MS);
  }),
  given('a row that nobody wrote is proved absent', async (a) => {
    assert.equal(value(await a.read()), undefined);
  }),
  given('a row reads back as written, at its revision, young', async (a, b) => {
    const revision = value(await a.write(sampleRow('a', 42.5), 0));
    const seen = value(await b.read());
    assert.deepEqual(seen?.row, sampleRow('a', 42.5));
    assert.equal(seen?.revision, revision);
    assert.ok((seen?.ageMs ?? -1) >= 0 && (seen?.ageMs ?? 0) < CONTRACT_TTL_MS);
  }),
  given('creating over a row is a conflict and changes nothing', async (a, b) => {
    value(await a.write(sampleRow('a'), 0));
    isConflict(await b.write(sampleRow('b'), 0));
    assert.equal(value(await b.read())?.row?.incarnation, 'a');
  }),
  given('a renewal names its revision; a stale revision is a conflict', async (a, b) => {
    const first = value(await a.write(sampleRow('a'), 0));
    const second = value(await a.write(sampleRow('a'), first));
    assert.ok(second > first);
    isConflict(await a.write(sampleRow('a'), first));
    isConflict(await b.remove(first));
    assert.equal(value(await b.read())?.revision, second);
  }),
  given('a removed row is absent and can be created at once by another', async (a, b) => {
    const first = value(await a.write(sampleRow('a'), 0));
    value(await a.remove(first));
    assert.equal(value(await b.read()), undefined);
    const second = value(await b.write(sampleRow('b'), 0));
    assert.ok(second > first);
    isConflict(await a.write(sampleRow('a'), first));
    isConflict(await a.remove(first));
  }),
  given('of two creators at the same moment one wins', async (a, b) => {
    for (let round = 0; round < 20; round++) {
      const both = await Promise.all([a.write(sampleRow('a'), 0), b.write(sampleRow('b'), 0)]);
      const won = both.filter((o) => o.kind === 'done');
      assert.equal(won.length, 1, JSON.stringify(both));
      value(await a.remove(value(won[0] as Outcome<number>)));
    }
  }),
  given('a row that is not renewed ends within its TTL and a second', async (a, b, h) => {
    value(await a.write(sampleRow('a'), 0));
    await h.pass(CONTRACT_TTL_MS + 1_000);
    assert.equal(value(await b.read()), undefined);
    value(await b.write(sampleRow('b'), 0));
  }),
  given('a renewed row outlives the TTL of its first writing', async (a, b, h) => {
    let revision = value(await a.write(sampleRow('a'), 0));
    for (let i = 0; i < 3; i++) {
      await h.pass(CONTRACT_TTL_MS / 2);
      revision = value(await a.write(sampleRow('a'), revision));
    }
    assert.equal(value(await b.read())?.revision, revision);
  }),
  given('a watch tells of a change and of a removal by another, until stopped', async (a, b, h) => {
    const told: RowNotice[] = [];
    const stop = value(await a.watch((n) => told.push(n)));
    const revision = value(await b.write(sampleRow('b'), 0));
    await h.until(() => told.some((n) => n.revision === revision && n.incarnation === 'b'));
    const removal = value(await b.remove(revision));
    await h.until(() => told.some((n) => n.revision === removal && n.removed));
    stop();
  }),
  given('the probe key ends like a row, and is no row', async (a, b, h) => {
    const revision = value(await a.probe.write());
    assert.equal(value(await b.probe.read())?.revision, revision);
    assert.equal(value(await b.read()), undefined);
    await h.pass(CONTRACT_TTL_MS + 1_000);
    assert.equal(value(await b.probe.read()), undefined);
  }),
];
