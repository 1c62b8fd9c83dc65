import { done, lifecycleKey } from '@plane3/protocol';
import type { MembershipRow, MembershipStore, RegistryPorts } from '@plane3/registry';
import { describe, expect, it } from 'vitest';
import { alice, copyAll, dispose, ok, Space, started } from './rig.ts';

const team = { lifecycle: alice, channel: 'team' };
const member = lifecycleKey(alice);

describe('a crash', () => {
  const PORTS = ['write', 'remove', 'copy', 'close'] as const;
  type Port = (typeof PORTS)[number];

  /** The process dies before or after its `nth` call of that port has its effect. */
  function dying(space: Space, port: Port, nth: number, after: boolean) {
    let calls = 0;
    let died = (): void => {};
    const death = new Promise<void>((now) => {
      died = now;
    });
    const call = async <T>(which: Port, run: () => T | Promise<T>): Promise<T> => {
      if (which !== port || ++calls !== nth) return run();
      if (after) await run();
      died();
      return new Promise<T>(() => {});
    };
    const ports: Partial<RegistryPorts> = {
      catchUp: { copy: (r) => call('copy', () => done(copyAll(space, r))) },
      boundary: { close: (b) => call('close', () => done({ disposed: dispose(space, b) })) },
    };
    const store = (s: MembershipStore): MembershipStore => {
      const write = s.write.bind(s);
      const remove = s.remove.bind(s);
      return Object.assign(s, {
        write: (k: string, r: MembershipRow, e: number) => call('write', () => write(k, r, e)),
        remove: (k: string, e: number) => call('remove', () => remove(k, e)),
      });
    };
    return { ports, store, death };
  }

  const cases: [Port, number, boolean][] = [
    ['write', 1, false],
    ['write', 1, true],
    ['copy', 1, false],
    ['copy', 1, true],
    ['write', 2, false],
    ['write', 2, true],
    ['write', 3, false],
    ['write', 3, true],
    ['close', 1, false],
    ['close', 1, true],
    ['write', 4, false],
    ['write', 4, true],
    ['remove', 1, false],
    ['remove', 1, true],
  ];

  it.each(cases)('at %s %i (effect: %j) is finished or undone by the next daemon', async (...c) => {
    const space = new Space();
    space.post('team');
    space.post('team');
    const faulty = dying(space, ...c);
    const dead = await started(space, faulty);
    dead.decide();
    void (async () => {
      await dead.registry.join({ ...team, joinCursor: 1 });
      space.post('team');
      dead.decide();
      await dead.registry.leave(team);
      await dead.registry.retire(alice);
    })();
    await faulty.death;
    await dead.registry.stop();

    const p = await started(space);
    await expect.poll(() => p.registry.status().working).toBe(0);
    const row = space.rowOf(alice, 'team');
    if (row === undefined || row.state === 'closed') expect(space.copiesOf(alice)).toEqual([]);
    else {
      expect(row.state).toBe('active');
      p.decide();
      const owed = space.posts.flatMap((_, i) => (i + 1 > row.joinCursor ? [i + 1] : []));
      expect(space.copiesOf(alice)).toEqual(
        owed.map((n) => `${member} team ${row.generation} ${n}`),
      );
    }
    ok(await p.registry.retire(alice));
    expect(space.copiesOf(alice)).toEqual([]);
    expect(space.members.get(`team/${member}`)).toBeUndefined();
  });
});
