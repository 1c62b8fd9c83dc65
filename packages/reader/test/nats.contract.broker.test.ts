import { entryStoreContract, handOverContract } from '@plane3/reader/contract';
import { NatsConfirmations, NatsEntryStore } from '@plane3/reader/nats';
import type { NatsProc } from '@plane3/testkit';
import { afterAll, afterEach, beforeAll, describe, test } from 'vitest';
import { Space, startBroker } from './broker.ts';

let nats: NatsProc;
let spaces: Space[] = [];
let made = 0;
beforeAll(async () => {
  nats = await startBroker();
});
afterEach(async () => {
  for (const s of spaces) await s.close();
  spaces = [];
});
afterAll(() => nats.stop());

const fresh = async (): Promise<Space> => {
  const s = await Space.make(nats, `s${++made}`);
  spaces.push(s);
  return s;
};

describe('entry store on the broker', () => {
  test.each(entryStoreContract)('$name', ({ run }) =>
    run(async () => {
      const s = await fresh();
      return {
        store: new NatsEntryStore({ api: s.api, names: s.names }),
        put: async ({ member, ...o }) => (await s.put(member, o)).storeSeq,
      };
    }),
  );
});

describe('hand-over on the broker', () => {
  test.each(handOverContract)('$name', ({ run }) =>
    run(async () => {
      const s = await fresh();
      return {
        handOver: s.handOver(),
        confirmations: new NatsConfirmations({ link: s.link, names: s.names }),
        newFence: () => s.newFence(),
        ackNext: async (member, count) => s.ack(await s.pull(member, count)),
      };
    }),
  );
});
