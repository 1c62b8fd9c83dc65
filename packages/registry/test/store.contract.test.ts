import {
  type FrontierHarness,
  frontierContract,
  type StoreHarness,
  storeContract,
} from '@plane3/registry/contract';
import { MemoryChannelStream, MemoryMembers, MemoryMembershipStore } from '@plane3/registry/memory';
import { describe, it } from 'vitest';

const storeHarness = async (): Promise<StoreHarness> => {
  const members = new MemoryMembers();
  const store = new MemoryMembershipStore(members);
  return {
    store,
    another: async () => new MemoryMembershipStore(members),
    plant: async (key, bytes) => void members.set(key, bytes, 0),
    recreate: async () => members.recreate(),
    end: () => store.close(),
  };
};

const frontierHarness = async (): Promise<FrontierHarness> => {
  const stream = new MemoryChannelStream();
  return {
    frontier: stream,
    post: async () => stream.post(),
    pass: async (ms) => {
      stream.nowMs += ms;
    },
    recreate: async () => stream.recreate('2'),
    end: async () => {},
  };
};

describe('memory membership store', () => {
  for (const c of storeContract) it(c.name, () => c.run(storeHarness));
});

describe('memory channel stream', () => {
  for (const c of frontierContract) it(c.name, () => c.run(frontierHarness));
});
