import { fenceContract, rowContract } from '@plane3/lease/contract';
import { ManualTime, MemoryFence, MemoryLeaseBucket } from '@plane3/lease/memory';
import { describe, test } from 'vitest';

describe('the row port in memory', () => {
  for (const c of rowContract)
    test(c.name, () =>
      c.run(async () => {
        const time = new ManualTime();
        const bucket = new MemoryLeaseBucket(time);
        return {
          open: async () => bucket.open(),
          pass: (ms) => time.pass(ms),
          until: () => time.pass(1_000),
          close: async () => {},
        };
      }),
    );
});

describe('the fence port in memory', () => {
  for (const c of fenceContract)
    test(c.name, () =>
      c.run(async () => {
        const fence = new MemoryFence();
        return {
          open: async () => fence,
          store: async (what, seq) => fence.store(what, seq),
          close: async () => {},
        };
      }),
    );
});
