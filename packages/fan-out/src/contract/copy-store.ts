import assert from 'node:assert/strict';
import { HEADER } from '@plane3/protocol';
import { copyHeaders, entryOf, postHeaders } from '../copy.ts';
import type { Answer, Owed } from '../model.ts';
import type { CopyStore, CopyToStore, ScannedCopy } from '../ports.ts';
import { type Case, doneOf } from './case.ts';

/** A fresh member store that takes at most 64 KiB per copy, and access to it. */
export interface CopyStoreUnderTest {
  readonly store: CopyStore;
  /** Writes a new holder's fence; answers its sequence. */
  raiseFence(): Promise<number>;
  remove(storeSeq: number): Promise<void>;
}

const MEMBER = (name: string): string => `local.${name}.${'u'.repeat(26)}`;
const NOTE = { writer: 'd1', at: 1, revisions: { members: 7 } };

const put = (store: CopyStore, copy: CopyToStore): Promise<Answer> =>
  new Promise((ok) => store.put(copy, ok));

function copyOf(
  seq: number,
  owed: Owed,
  o: { readonly attempt?: number; readonly bytes?: number } = {},
): CopyToStore & { readonly entry: string } {
  const frame = new Uint8Array(o.bytes ?? 10);
  const sound = { seq, channel: 'team', from: 'local.alice', mentions: [], storedAtMs: 1, frame };
  const entry = entryOf('a1', seq, owed);
  const headers = copyHeaders(postHeaders('a1', sound, undefined), owed, entry, o.attempt ?? 0);
  return { member: owed.member, headers, body: frame, entry };
}

const durable = (name: string, generation = 1): Owed => ({
  member: MEMBER(name),
  generation,
  kind: 'durable',
});

const storeSeqOf = (answer: Answer): number => {
  if (answer.kind !== 'stored') assert.fail(JSON.stringify(answer));
  return answer.storeSeq;
};

async function scanned(
  store: CopyStore,
  what: Parameters<CopyStore['scan']>[0],
): Promise<{ copies: ScannedCopy[]; storeSeq: number }> {
  const copies: ScannedCopy[] = [];
  const { storeSeq } = doneOf(await store.scan(what, (c) => copies.push(c)));
  return { copies, storeSeq };
}

async function fenced(make: () => Promise<CopyStoreUnderTest>): Promise<CopyStoreUnderTest> {
  const t = await make();
  t.store.useFence(await t.raiseFence());
  return t;
}

export const copyStoreContract: readonly Case<CopyStoreUnderTest>[] = [
  {
    name: 'a copy that is acknowledged can be read back as that entry and as no other',
    run: async (make) => {
      const { store, remove } = await fenced(make);
      const copy = copyOf(5, durable('bob'));
      const answer = await put(store, copy);
      assert.equal(answer.kind === 'stored' && answer.duplicate, false);
      const storeSeq = storeSeqOf(answer);
      assert.equal(doneOf(await store.isCopy(storeSeq, copy.entry)), true);
      assert.equal(doneOf(await store.isCopy(storeSeq, `${copy.entry}0`)), false);
      assert.equal(doneOf(await store.isCopy(storeSeq + 1, copy.entry)), false);
      await remove(storeSeq);
      assert.equal(doneOf(await store.isCopy(storeSeq, copy.entry)), false);
    },
  },
  {
    name: 'the same id again is called a duplicate of the first sequence; another attempt is not',
    run: async (make) => {
      const { store } = await fenced(make);
      const first = storeSeqOf(await put(store, copyOf(5, durable('bob'))));
      assert.deepEqual(await put(store, copyOf(5, durable('bob'))), {
        kind: 'stored',
        storeSeq: first,
        duplicate: true,
      });
      const other = await put(store, copyOf(5, durable('bob'), { attempt: 1 }));
      assert.equal(other.kind === 'stored' && other.duplicate, false);
    },
  },
  {
    name: 'S139 another generation of the membership is another copy',
    run: async (make) => {
      const { store } = await fenced(make);
      const first = await put(store, copyOf(5, durable('bob', 1)));
      const second = await put(store, copyOf(5, durable('bob', 2)));
      assert.equal(second.kind === 'stored' && second.duplicate, false);
      assert.ok(storeSeqOf(second) > storeSeqOf(first));
    },
  },
  {
    name: 'after another holder’s fence neither a copy nor a cursor is stored',
    run: async (make) => {
      const { store, raiseFence } = await fenced(make);
      const cursor = { incarnation: 'a1', seq: 5, storeFloor: 0, deadFloor: 0 };
      await raiseFence();
      const copy = await put(store, copyOf(5, durable('bob')));
      assert.equal(copy.kind === 'refused' && copy.reason, 'fence-lost');
      const written = await store.writeCursor(cursor, NOTE);
      assert.equal(written.kind === 'refused' && written.reason, 'fence-lost');
      assert.equal(doneOf(await store.readCursor()), undefined);
      assert.equal((await scanned(store, { storeFloor: 0 })).copies.length, 0);
    },
  },
  {
    name: 'the cursor is proved absent at first, then the last one written',
    run: async (make) => {
      const { store } = await fenced(make);
      assert.equal(doneOf(await store.readCursor()), undefined);
      for (let seq = 1; seq <= 300; seq++) {
        const cursor = { incarnation: 'a1', seq, storeFloor: seq * 2, deadFloor: 3 };
        storeSeqOf(await store.writeCursor(cursor, NOTE));
      }
      assert.deepEqual(doneOf(await store.readCursor()), {
        incarnation: 'a1',
        seq: 300,
        storeFloor: 600,
        deadFloor: 3,
      });
    },
  },
  {
    name: 'a scan finds every copy above its floor, or of its member, and names the last sequence',
    run: async (make) => {
      const { store } = await fenced(make);
      const seqs: number[] = [];
      for (let i = 1; i <= 1_200; i++) {
        const owed: Owed =
          i % 3 === 0
            ? { member: MEMBER('carol'), generation: 0, kind: 'mention' }
            : durable(i % 3 === 1 ? 'bob' : 'dave', 4);
        seqs.push(storeSeqOf(await put(store, copyOf(i, owed))));
      }
      const floor = seqs[99] as number;
      const above = await scanned(store, { storeFloor: floor });
      assert.equal(above.copies.length, 1_100);
      assert.equal(above.storeSeq, seqs.at(-1));
      assert.deepEqual(above.copies[1], {
        member: MEMBER('carol'),
        incarnation: 'a1',
        seq: 102,
        generation: 0,
        kind: 'mention',
        storeSeq: seqs[101],
      });
      const bob = await scanned(store, { member: MEMBER('bob') });
      assert.equal(bob.copies.length, 400);
      assert.ok(bob.copies.every((c) => c.member === MEMBER('bob') && c.generation === 4));
      const none = await scanned(store, { storeFloor: above.storeSeq });
      assert.deepEqual(none, { copies: [], storeSeq: above.storeSeq });
    },
  },
  {
    name: 'a scan whose last copy is gone is still complete',
    run: async (make) => {
      const { store, remove } = await fenced(make);
      await put(store, copyOf(1, durable('bob')));
      const last = storeSeqOf(await put(store, copyOf(2, durable('bob'))));
      await remove(last);
      assert.equal((await scanned(store, { storeFloor: 0 })).copies.length, 1);
    },
  },
  {
    name: 'what is too large is refused as that, and the next copy is stored',
    run: async (make) => {
      const { store } = await fenced(make);
      const large = await put(store, copyOf(1, durable('bob'), { bytes: 100_000 }));
      assert.equal(large.kind === 'refused' && large.reason, 'too-large');
      storeSeqOf(await put(store, copyOf(2, durable('bob'))));
      assert.equal((await scanned(store, { storeFloor: 0 })).copies.length, 1);
    },
  },
  {
    name: 'the publish id bears the attempt, the entry header does not',
    run: async (make) => {
      const { store } = await fenced(make);
      const copy = copyOf(5, durable('bob'), { attempt: 2 });
      const headers = new Map(copy.headers);
      assert.equal(headers.get(HEADER.msgId), `${copy.entry}~2`);
      const storeSeq = storeSeqOf(await put(store, copy));
      assert.equal(doneOf(await store.isCopy(storeSeq, copy.entry)), true);
    },
  },
];
