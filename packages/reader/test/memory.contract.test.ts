import { entryId, MENTION_GENERATION } from '@plane3/protocol';
import {
  entryStoreContract,
  type HandOverRig,
  handOverContract,
  type StoreRig,
} from '@plane3/reader/contract';
import { MemoryEntryStore, MemoryHandOver } from '@plane3/reader/memory';
import { describe, test } from 'vitest';

async function makeStore(): Promise<StoreRig> {
  const store = new MemoryEntryStore();
  return {
    store,
    put: async ({ member, seq, kind = 'durable', ...o }) => {
      const generation = kind === 'mention' ? MENTION_GENERATION : 1;
      const entry = { member, incarnation: 'chat1', seq, generation };
      return store.put({
        entry,
        entryId: entryId(entry),
        channel: o.channel ?? 'general',
        kind,
        from: 'local.sender',
        body: o.body ?? new Uint8Array(1),
        storedAt: 0,
        ...(o.signature === undefined ? {} : { signature: o.signature }),
      }).storeSeq;
    },
  };
}

async function makeHandOver(): Promise<HandOverRig> {
  const handOver = new MemoryHandOver();
  const acked = new Set<number>();
  return {
    handOver,
    confirmations: handOver.confirmations,
    newFence: async () => ++handOver.fence,
    ackNext: async (member, count) => {
      for (const c of handOver
        .of(member)
        .filter((x) => !acked.has(x.copySeq))
        .slice(0, count)) {
        acked.add(c.copySeq);
        handOver.ack(c);
      }
    },
  };
}

describe('entry store in memory', () => {
  test.each(entryStoreContract)('$name', ({ run }) => run(makeStore));
});
describe('hand-over in memory', () => {
  test.each(handOverContract)('$name', ({ run }) => run(makeHandOver));
});
