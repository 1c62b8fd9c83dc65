import { timerSubject } from '@plane3/protocol';
import { type ContractAdapter, SESSION_CONTRACT } from '@plane3/schedule-writer/contract';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { sessionsOf, startSpace, type TestSpace } from './support/broker.ts';

let space: TestSpace;
beforeAll(async () => {
  space = await startSpace();
});
afterAll(() => space.stop());

const pass = (ms: number): Promise<void> => new Promise((ok) => setTimeout(ok, ms));

/** A fresh set of streams per case on one broker. */
async function broker(): Promise<ContractAdapter> {
  const { names } = space;
  await space.makeStreams();
  const opened = await sessionsOf(space).open();
  if (opened.kind !== 'done') return expect.fail(JSON.stringify(opened));
  return {
    session: opened.value,
    prefix: names.prefix,
    wallMs: () => Date.now(),
    request: async (f) => {
      await space.agent.nc.request(f.subject, f.body, { timeout: 5_000 });
    },
    setStatus: (endpoint, timerId, s) => space.setStatus(timerId, s, endpoint),
    plant: async (t) => {
      const armed = timerSubject(names.prefix, { ...t, verb: 'armed' });
      await space.agent.nc.request(armed, 'planted', { timeout: 5_000 });
    },
    pass,
    close: async () => {
      await opened.value.close();
      for (const stream of [names.streams.timerRequests, names.streams.timers])
        await space.api('s', `STREAM.DELETE.${stream}`);
      await space.api('v', `STREAM.DELETE.KV_${names.buckets.records}`);
    },
  };
}

describe('the session on a real broker', () => {
  for (const c of SESSION_CONTRACT) it(c.name, () => c.run(broker));
});
