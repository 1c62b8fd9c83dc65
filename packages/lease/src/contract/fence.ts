import assert from 'node:assert/strict';
import type { FenceMark } from '../fence.ts';
import type { FencePort } from '../ports.ts';
import { value } from './row.ts';

/** A fresh stream for each case, and clients of it. */
export interface FenceHarness {
  open(): Promise<FencePort>;
  /** A holder's write that names this fence; false: refused because of the fence. */
  store(what: string, fenceSeq: number): Promise<boolean>;
  close(): Promise<void>;
}

export interface FenceCase {
  readonly name: string;
  run(make: () => Promise<FenceHarness>): Promise<void>;
}

const mark = (incarnation: string, leaseRevision: number): FenceMark => ({
  incarnation,
  leaseRevision,
  at: 1,
});

const given = (
  name: string,
  body: (a: FencePort, b: FencePort, h: FenceHarness) => Promise<void>,
): FenceCase => ({
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

export const fenceContract: readonly FenceCase[] = [
  given('a stream without a fence says so', async (a) => {
    assert.equal(value(await a.read()), undefined);
  }),
  given('a mark reads back at its sequence', async (a, b) => {
    const seq = value(await a.write(mark('a', 3), 0));
    assert.deepEqual(value(await b.read()), { seq, mark: mark('a', 3) });
  }),
  given('a mark over another needs its sequence', async (a, b) => {
    const first = value(await a.write(mark('a', 3), 0));
    const stale = await b.write(mark('b', 5), 0);
    assert.equal(stale.kind === 'refused' && stale.reason, 'conflict', JSON.stringify(stale));
    const second = value(await b.write(mark('b', 5), first));
    assert.ok(second > first);
  }),
  given('a write behind the old fence is refused once a new one is there', async (a, b, h) => {
    const first = value(await a.write(mark('a', 3), 0));
    assert.equal(await h.store('by a', first), true);
    const second = value(await b.write(mark('b', 5), first));
    assert.equal(await h.store('by a, late', first), false);
    assert.equal(await h.store('by b', second), true);
    assert.equal(await h.store('by b, again', second), true);
  }),
];
