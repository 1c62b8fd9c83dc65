import assert from 'node:assert/strict';
import type { EntryKind, LifecycleKey } from '@plane3/protocol';
import type { EntryStore, StorePage } from '../ports.ts';

/** A case of a contract: what every adapter promises. `make` gives a fresh, empty rig. */
export interface ContractCase<Rig> {
  readonly name: string;
  readonly run: (make: () => Promise<Rig>) => Promise<void>;
}

export interface EntryToPut {
  readonly member: LifecycleKey;
  readonly seq: number;
  readonly channel?: string;
  readonly kind?: EntryKind;
  readonly body?: Uint8Array;
  readonly signature?: string;
}

export interface StoreRig {
  readonly store: EntryStore;
  /** Stores an entry as fan-out does; answers its sequence. */
  put(entry: EntryToPut): Promise<number>;
}

const BOB: LifecycleKey = `local.bob.${'b'.repeat(26)}`;
const EVE: LifecycleKey = `local.eve.${'e'.repeat(26)}`;
const PAGE = { entries: 10, bytes: 1 << 20 };

export const entryStoreContract: readonly ContractCase<StoreRig>[] = [
  {
    name: 'an entry reads back as it was stored',
    run: async (make) => {
      const { store, put } = await make();
      const body = new TextEncoder().encode('{"version":1}');
      const at = await put({ member: BOB, seq: 7, channel: 'a.b', body, signature: 'sig' });
      const page = await read(store, BOB, 1);
      const [e] = page.entries;
      assert.equal(page.entries.length, 1);
      assert.deepEqual(
        [e?.storeSeq, e?.entry.seq, e?.entry.member, e?.channel, e?.kind, e?.signature],
        [at, 7, BOB, 'a.b', 'durable', 'sig'],
      );
      assert.deepEqual(Buffer.from(e?.body ?? []), Buffer.from(body));
      assert.equal(page.complete, true);
    },
  },
  {
    name: 'a mention copy reads back as one',
    run: async (make) => {
      const { store, put } = await make();
      await put({ member: BOB, seq: 1, kind: 'mention' });
      assert.equal((await read(store, BOB, 1)).entries[0]?.kind, 'mention');
    },
  },
  {
    name: 'pages of one member join without gap or repeat, and the last one proves the end',
    run: async (make) => {
      const { store, put } = await make();
      const mine: number[] = [];
      for (let seq = 1; seq <= 25; seq++) {
        mine.push(await put({ member: BOB, seq }));
        await put({ member: EVE, seq });
      }
      const seen: number[] = [];
      let from = 1;
      for (let page = 0; page < 100; page++) {
        const p = await read(store, BOB, from);
        seen.push(...p.entries.map((e) => e.storeSeq));
        from = p.nextSeq;
        if (p.complete) break;
        assert.ok(p.entries.length > 0, 'a page that is not the last holds something');
      }
      assert.deepEqual(seen, mine);
    },
  },
  {
    name: 'an entry larger than the page is read alone',
    run: async (make) => {
      const { store, put } = await make();
      const body = new Uint8Array(5_000);
      const a = await put({ member: BOB, seq: 1, body });
      const b = await put({ member: BOB, seq: 2, body });
      const seen: number[] = [];
      let from = 1;
      for (let page = 0; page < 10; page++) {
        const o = await store.read(BOB, from, { entries: 10, bytes: 1_000 });
        assert.ok(o.kind === 'done');
        seen.push(...o.value.entries.map((e) => e.storeSeq));
        from = o.value.nextSeq;
        if (o.value.complete) break;
      }
      assert.deepEqual(seen, [a, b]);
    },
  },
  {
    name: 'a member without entries is an answer, not an error',
    run: async (make) => {
      const { store } = await make();
      const page = await read(store, BOB, 1);
      assert.deepEqual([page.entries.length, page.complete], [0, true]);
    },
  },
  {
    name: 'a removed entry is gone for good, others stay, and removing again says so',
    run: async (make) => {
      const { store, put } = await make();
      const a = await put({ member: BOB, seq: 1 });
      const b = await put({ member: BOB, seq: 2 });
      assert.deepEqual(await store.remove(a), { kind: 'done', value: true });
      assert.deepEqual(await store.remove(a), { kind: 'done', value: false });
      assert.deepEqual(
        (await read(store, BOB, 1)).entries.map((e) => e.storeSeq),
        [b],
      );
    },
  },
  {
    name: 'members with entries are counted, others are not named',
    run: async (make) => {
      const { store, put } = await make();
      for (let seq = 1; seq <= 3; seq++) await put({ member: BOB, seq });
      await put({ member: EVE, seq: 1 });
      const o = await store.members();
      assert.ok(o.kind === 'done');
      assert.deepEqual([...o.value].sort(), [
        [BOB, 3],
        [EVE, 1],
      ]);
    },
  },
];

async function read(store: EntryStore, member: LifecycleKey, from: number): Promise<StorePage> {
  const o = await store.read(member, from, PAGE);
  assert.ok(o.kind === 'done', JSON.stringify(o));
  return o.value;
}
