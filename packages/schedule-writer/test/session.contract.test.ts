import { type ContractAdapter, SESSION_CONTRACT } from '@plane3/schedule-writer/contract';
import { MemoryTimers, MemoryWorld } from '@plane3/schedule-writer/memory';
import { describe, expect, it } from 'vitest';
import { PREFIX } from './support/facts.ts';
import { settle } from './support/rig.ts';

async function memory(): Promise<ContractAdapter> {
  const timers = new MemoryTimers();
  const world = new MemoryWorld(timers, { prefix: PREFIX });
  const opened = await world.open();
  if (opened.kind !== 'done') return expect.fail('not opened');
  return {
    session: opened.value,
    prefix: PREFIX,
    wallMs: () => timers.wallMs(),
    request: async (f) => world.request({ ...f, headerNames: [] }),
    setStatus: async (e, t, s) => world.setStatus(e, t, s),
    plant: async (t) => world.plant(t),
    pass: async (ms) => {
      timers.advance(ms);
      await settle();
    },
    close: () => opened.value.close(),
  };
}

describe('the session in memory', () => {
  for (const c of SESSION_CONTRACT) it(c.name, () => c.run(memory));
});
