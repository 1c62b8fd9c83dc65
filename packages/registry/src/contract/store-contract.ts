import assert from 'node:assert/strict';
import type { MembershipRow } from '../membership.ts';
import type { MembershipStore, StoreSink } from '../ports.ts';
import { membershipKey, sameRow } from '../row.ts';
import { type Case, caseOf, doneOf, eventually } from './case.ts';

export interface StoreHarness {
  /** Nothing loaded yet; the bucket is empty. */
  readonly store: MembershipStore;
  /** The same bucket as another process sees it. */
  another(): Promise<MembershipStore>;
  /** Bytes that are no row, written under a key. */
  plant(key: string, bytes: Uint8Array): Promise<void>;
  /** The bucket is deleted and made anew. */
  recreate(): Promise<void>;
  end(): Promise<void>;
}

const CHANNEL = 'team.backend';
const MEMBER = `local.alice.${'a'.repeat(26)}`;
const KEY = membershipKey(CHANNEL, MEMBER);
const QUIET: StoreSink = { changed: () => {}, recreated: () => {} };

const rowOf = (o: Partial<MembershipRow> = {}): MembershipRow => ({
  channel: CHANNEL,
  member: MEMBER,
  state: 'active',
  generation: 7,
  incarnation: 'abc',
  joinCursor: 12,
  cursorSource: 'client',
  writer: 'w1',
  past: [],
  ...o,
});

class Heard implements StoreSink {
  readonly last = new Map<string, { row: MembershipRow | undefined; revision: number }>();
  isRecreated = false;
  changed(key: string, row: MembershipRow | undefined, revision: number): void {
    assert.ok(revision >= (this.last.get(key)?.revision ?? 0), 'revisions of a key never go back');
    this.last.set(key, { row, revision });
  }
  recreated(): void {
    this.isRecreated = true;
  }
}

const one = caseOf<StoreHarness>;

export const storeContract: readonly Case<StoreHarness>[] = [
  one('an empty store loads nothing and is current', async ({ store }) => {
    assert.deepEqual(doneOf(await store.load(QUIET)), []);
    assert.ok(store.isCurrent());
  }),

  one('a row comes back whole, with its revision', async ({ store, another }) => {
    doneOf(await store.load(QUIET));
    const row = rowOf({
      state: 'closed',
      leaveCursor: 20,
      lost: { from: 13, to: 14 },
      past: [{ generation: 3, incarnation: 'old', joinCursor: 0, cursorSource: 'frontier' }],
    });
    const revision = doneOf(await store.write(KEY, row, 0));
    const read = doneOf(await store.read(KEY));
    assert.deepEqual(read, { row, revision });
    const loaded = doneOf(await (await another()).load(QUIET));
    assert.deepEqual(loaded, [{ row, revision }]);
  }),

  one('of two writers on one revision one loses, and nothing of its write is there', async (h) => {
    doneOf(await h.store.load(QUIET));
    const rival = await h.another();
    const first = doneOf(await h.store.write(KEY, rowOf(), 0));
    const lost = await rival.write(KEY, rowOf({ joinCursor: 99 }), 0);
    assert.ok(lost.kind === 'refused' && lost.reason === 'conflict', JSON.stringify(lost));
    const second = doneOf(await rival.write(KEY, rowOf({ joinCursor: 13 }), first));
    assert.ok(second > first);
    const stale = await h.store.write(KEY, rowOf({ joinCursor: 98 }), first);
    assert.ok(stale.kind === 'refused' && stale.reason === 'conflict', JSON.stringify(stale));
    assert.equal(doneOf(await h.store.read(KEY))?.row.joinCursor, 13);
  }),

  one('a removal needs the revision, and a removed row is absent', async ({ store }) => {
    doneOf(await store.load(QUIET));
    const revision = doneOf(await store.write(KEY, rowOf(), 0));
    const wrong = await store.remove(KEY, revision + 5);
    assert.ok(wrong.kind === 'refused' && wrong.reason === 'conflict', JSON.stringify(wrong));
    assert.ok(doneOf(await store.remove(KEY, revision)) > revision);
    assert.equal(doneOf(await store.read(KEY)), undefined);
  }),

  one('a row can be written where one was removed', async ({ store, another }) => {
    doneOf(await store.load(QUIET));
    const first = doneOf(await store.write(KEY, rowOf(), 0));
    doneOf(await store.remove(KEY, first));
    const again = doneOf(await store.write(KEY, rowOf({ generation: 9 }), 0));
    assert.ok(again > first);
    const loaded = doneOf(await (await another()).load(QUIET));
    assert.deepEqual(
      loaded.map((r) => [r.row.generation, r.revision]),
      [[9, again]],
    );
  }),

  one('the last sequence covers every revision, removals too', async ({ store }) => {
    doneOf(await store.load(QUIET));
    assert.equal(doneOf(await store.lastSeq()), 0);
    const revision = doneOf(await store.write(KEY, rowOf(), 0));
    assert.ok(doneOf(await store.lastSeq()) >= revision);
    const removed = doneOf(await store.remove(KEY, revision));
    assert.ok(doneOf(await store.lastSeq()) >= removed);
  }),

  one('own and foreign changes are told', async ({ store, another }) => {
    const heard = new Heard();
    doneOf(await store.load(heard));
    const rival = await another();
    const first = doneOf(await store.write(KEY, rowOf(), 0));
    await eventually(() => heard.last.get(KEY)?.revision === first, 'the own change');
    const changed = rowOf({ writer: 'w2' });
    const second = doneOf(await rival.write(KEY, changed, first));
    await eventually(() => heard.last.get(KEY)?.revision === second, 'the foreign change');
    const told = heard.last.get(KEY)?.row;
    assert.ok(told !== undefined && sameRow(told, changed));
    doneOf(await rival.remove(KEY, second));
    await eventually(
      () => heard.last.has(KEY) && heard.last.get(KEY)?.row === undefined,
      'the removal',
    );
  }),

  one('bytes that are no row of that key are none, and said so when asked for', async (h) => {
    await h.plant(KEY, new TextEncoder().encode('{"v":1}'));
    assert.deepEqual(doneOf(await h.store.load(QUIET)), []);
    const read = await h.store.read(KEY);
    assert.ok(read.kind === 'refused' && read.reason === 'malformed', JSON.stringify(read));
  }),

  one('a recreated bucket is told as such; its emptiness is no removal', async (h) => {
    const heard = new Heard();
    doneOf(await h.store.load(heard));
    doneOf(await h.store.write(KEY, rowOf(), 0));
    await eventually(() => heard.last.has(KEY), 'the own change');
    await h.recreate();
    await eventually(() => {
      h.store.isCurrent();
      return heard.isRecreated;
    }, 'the notice');
    assert.ok(heard.last.get(KEY)?.row !== undefined);
  }),
];
