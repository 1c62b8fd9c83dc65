import assert from 'node:assert/strict';
import { entryId, type LifecycleKey } from '@plane3/protocol';
import type { AckSeen } from '../confirmation.ts';
import type { StoredEntry } from '../model.ts';
import type { Confirmations, HandOver, HandOverAnswer, StoredCopy } from '../ports.ts';
import type { ContractCase } from './entry-store.ts';

export interface HandOverRig {
  readonly handOver: HandOver;
  readonly confirmations: Confirmations;
  /** Writes the fence as a new holder would; answers the sequence that it has to expect. */
  newFence(): Promise<number>;
  /** The member pulls on its durable and acknowledges everything that comes, `count` in all. */
  ackNext(member: LifecycleKey, count: number, body?: string): Promise<void>;
}

const BOB: LifecycleKey = `local.bob.${'b'.repeat(26)}`;
const EVE: LifecycleKey = `local.eve.${'e'.repeat(26)}`;
const INCARNATION = 'd1';

const entryFor = (member: LifecycleKey, seq: number): StoredEntry => {
  const entry = { member, incarnation: 'chat1', seq, generation: 1 };
  return {
    entry,
    entryId: entryId(entry),
    storeSeq: seq,
    channel: 'general',
    kind: 'durable',
    from: 'local.sender',
    storedAt: 0,
    body: new TextEncoder().encode(`{"n":${seq}}`),
  };
};

const publish = (
  handOver: HandOver,
  entry: StoredEntry,
  handOverCount = 1,
): Promise<HandOverAnswer> =>
  new Promise((ok) =>
    handOver.publish({ entry, handOver: handOverCount, incarnation: INCARNATION }, ok),
  );

async function stored(handOver: HandOver, entry: StoredEntry, count = 1): Promise<number> {
  const o = await publish(handOver, entry, count);
  assert.ok(o.kind === 'done', JSON.stringify(o));
  return o.value.copySeq;
}

async function ready(rig: HandOverRig): Promise<readonly StoredCopy[]> {
  rig.handOver.useFence(await rig.newFence());
  const o = await rig.handOver.open();
  assert.ok(o.kind === 'done', JSON.stringify(o));
  return o.value;
}

const value = <T>(o: { readonly kind: string; readonly value?: T }): T | undefined => {
  assert.equal(o.kind, 'done', JSON.stringify(o));
  return o.value;
};

export const handOverContract: readonly ContractCase<HandOverRig>[] = [
  {
    name: 'a copy reads back with its entry, its count and a stored time, and is listed at open',
    run: async (make) => {
      const rig = await make();
      assert.deepEqual(await ready(rig), []);
      const e = entryFor(BOB, 1);
      const copySeq = await stored(rig.handOver, e, 3);
      const c = value(await rig.handOver.readCopy(copySeq));
      assert.deepEqual([c?.member, c?.entryId, c?.handOver], [BOB, e.entryId, 3]);
      assert.match(c?.storedNs ?? '', /^\d{16,20}$/);
      const listed = await ready(rig);
      assert.deepEqual(
        listed.map(({ member, copySeq: s, storedNs, entryId: id, handOver }) => ({
          member,
          copySeq: s,
          storedNs,
          entryId: id,
          handOver,
        })),
        [{ member: BOB, copySeq, storedNs: c?.storedNs, entryId: e.entryId, handOver: 3 }],
      );
      await rig.handOver.close();
    },
  },
  {
    name: 'a publish under an older fence is refused as fence-lost and stores nothing',
    run: async (make) => {
      const rig = await make();
      await ready(rig);
      await rig.newFence();
      const o = await publish(rig.handOver, entryFor(BOB, 1));
      assert.ok(o.kind === 'refused' && o.reason === 'fence-lost', JSON.stringify(o));
      assert.equal(value(await rig.handOver.isEmpty(BOB)), true);
      await rig.handOver.close();
    },
  },
  {
    name: 'repeating a copy stores it once, and the duplicate names the first; another count is another copy',
    run: async (make) => {
      const rig = await make();
      await ready(rig);
      const e = entryFor(BOB, 1);
      const copySeq = await stored(rig.handOver, e);
      assert.deepEqual(await publish(rig.handOver, e), {
        kind: 'done',
        value: { copySeq, duplicate: true },
      });
      assert.notEqual(await stored(rig.handOver, e, 2), copySeq);
      await rig.handOver.close();
    },
  },
  {
    name: 'a duplicate of a copy that was taken back cannot be read: no proof',
    run: async (make) => {
      const rig = await make();
      await ready(rig);
      const e = entryFor(BOB, 1);
      const copySeq = await stored(rig.handOver, e);
      assert.equal(value(await rig.handOver.purge(BOB)), 1);
      const o = await publish(rig.handOver, e);
      assert.ok(o.kind === 'done' && o.value.duplicate);
      assert.equal(o.value.copySeq, copySeq);
      assert.equal(value(await rig.handOver.readCopy(copySeq)), undefined);
      await rig.handOver.close();
    },
  },
  {
    name: 'a purge takes one member only, whole or below a sequence, and reads back empty',
    run: async (make) => {
      const rig = await make();
      await ready(rig);
      const seqs: number[] = [];
      for (let n = 1; n <= 4; n++) seqs.push(await stored(rig.handOver, entryFor(BOB, n)));
      await stored(rig.handOver, entryFor(EVE, 1));
      assert.equal(value(await rig.handOver.purge(BOB, seqs[2])), 2);
      assert.equal(value(await rig.handOver.isEmpty(BOB)), false);
      assert.equal(value(await rig.handOver.purge(BOB)), 2);
      assert.equal(value(await rig.handOver.isEmpty(BOB)), true);
      assert.equal(value(await rig.handOver.isEmpty(EVE)), false);
      await rig.handOver.close();
    },
  },
  {
    name: 'one copy can be taken away, and again says that it was not there',
    run: async (make) => {
      const rig = await make();
      await ready(rig);
      const a = await stored(rig.handOver, entryFor(BOB, 1));
      const b = await stored(rig.handOver, entryFor(BOB, 2));
      assert.equal(value(await rig.handOver.removeCopy(a)), true);
      assert.equal(value(await rig.handOver.removeCopy(a)), false);
      assert.equal(value(await rig.handOver.readCopy(a)), undefined);
      assert.equal(value(await rig.handOver.readCopy(b))?.copySeq, b);
      await rig.handOver.close();
    },
  },
  {
    name: 'a durable is made once, and its floor is where the member acked',
    run: async (make) => {
      const rig = await make();
      await ready(rig);
      assert.equal(value(await rig.handOver.floorOf(BOB)), undefined);
      const made = value(await rig.handOver.ensureDurable(BOB));
      assert.equal(made, 'made');
      assert.equal(value(await rig.handOver.ensureDurable(BOB)), 'present');
      const seqs: number[] = [];
      for (let n = 1; n <= 3; n++) seqs.push(await stored(rig.handOver, entryFor(BOB, n)));
      await rig.ackNext(BOB, 2);
      const floor = value(await rig.handOver.floorOf(BOB))?.floor ?? 0;
      assert.ok(floor >= (seqs[1] ?? 0) && floor < (seqs[2] ?? 0), `floor ${floor} of ${seqs}`);
      await rig.handOver.close();
    },
  },
  {
    name: 'an ack is heard with durable, sequence and stored time of the copy',
    run: async (make) => {
      const rig = await make();
      await ready(rig);
      const acks: AckSeen[] = [];
      const opened = await rig.confirmations.open((a) => acks.push(a));
      assert.ok(opened.kind === 'done');
      await rig.handOver.ensureDurable(BOB);
      const copySeq = await stored(rig.handOver, entryFor(BOB, 1));
      const copy = value(await rig.handOver.readCopy(copySeq));
      await rig.ackNext(BOB, 1);
      const [a] = acks;
      assert.deepEqual(
        [a?.seq, a?.storedNs, a?.payload, a?.hasHeaders],
        [copySeq, copy?.storedNs, 'ack', false],
      );
      assert.equal(rig.confirmations.memberOf(a?.durable ?? ''), BOB);
      assert.equal(rig.confirmations.memberOf('svc_role'), undefined);
      opened.value();
      await rig.handOver.close();
    },
  },
  {
    name: 'the incarnation stays the same while the stream does',
    run: async (make) => {
      const { handOver } = await make();
      const a = value(await handOver.incarnation());
      assert.equal(value(await handOver.incarnation()), a);
    },
  },
];
