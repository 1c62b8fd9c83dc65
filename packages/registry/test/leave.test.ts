import { done, lifecycleKey } from '@plane3/protocol';
import type { Boundary, FrontierReader } from '@plane3/registry';
import { describe, expect, it } from 'vitest';
import { alice, bob, codeOf, dispose, Held, ok, Space, started } from './rig.ts';

const team = { lifecycle: alice, channel: 'team' };

describe('leave', () => {
  it('ends the interval at the frontier and takes back what is pending', async () => {
    const space = new Space();
    const p = await started(space);
    const { generation } = ok(await p.registry.join(team));
    for (let i = 0; i < 3; i++) space.post('team');
    p.decide();
    const left = ok(await p.registry.leave({ ...team, generation }));
    expect(left).toEqual({ channel: 'team', leaveCursor: 3, disposed: 3 });
    expect(space.copiesOf(alice)).toEqual([]);
    expect(space.rowOf(alice, 'team')).toMatchObject({ state: 'closed', leaveCursor: 3 });
    space.post('team');
    p.decide();
    expect(space.copiesOf(alice)).toEqual([]);
  });

  it('ends the interval above every post that was copied while it was under way', async () => {
    const space = new Space();
    let leaving = false;
    const frontier: FrontierReader = {
      read: async () => {
        const read = await space.chat.read(undefined);
        // Posts go on, and fan-out with them, between the frontier and the row that names it.
        if (leaving) space.post('team');
        if (leaving) p.decide();
        return read;
      },
    };
    const copied: string[] = [];
    const close = async (b: Boundary) => {
      copied.push(...space.copiesOf(alice));
      return done({ disposed: dispose(space, b) });
    };
    const p = await started(space, { ports: { frontier, boundary: { close } } });
    ok(await p.registry.join(team));
    leaving = true;
    const { leaveCursor } = ok(await p.registry.leave(team));
    expect(copied).toHaveLength(1);
    for (const c of copied) expect(Number(c.split(' ')[3])).toBeLessThanOrEqual(leaveCursor);
    expect(space.rowOf(alice, 'team')).toMatchObject({ state: 'closed', leaveCursor });
  });

  it('again says that it was left already', async () => {
    const p = await started(new Space());
    ok(await p.registry.join(team));
    const first = ok(await p.registry.leave(team));
    expect(ok(await p.registry.leave(team))).toEqual({ ...first, alreadyLeft: true });
  });

  it('of a channel that was never joined says that it was left already', async () => {
    const p = await started(new Space());
    const never = { channel: 'team', leaveCursor: 0, disposed: 0, alreadyLeft: true };
    expect(ok(await p.registry.leave(team))).toEqual(never);
    expect(p.registry.status()).toMatchObject({ working: 0, rows: 0 });
  });

  it('of another generation is a conflict and changes nothing', async () => {
    const space = new Space();
    const p = await started(space);
    const { generation } = ok(await p.registry.join(team));
    const a = await p.registry.leave({ ...team, generation: generation + 1 });
    expect(codeOf(a)).toBe('conflict not-executed');
    expect(space.rowOf(alice, 'team')?.state).toBe('active');
    ok(await p.registry.leave(team));
    const again = ok(await p.registry.join(team));
    expect(again.generation).toBeGreaterThan(generation);
    expect(codeOf(await p.registry.leave({ ...team, generation }))).toBe('conflict not-executed');
  });

  it('needs no read right: it is never asked for', async () => {
    const space = new Space();
    const p = await started(space);
    ok(await p.registry.join(team));
    space.right = 'refuse';
    space.rightsAsked = 0;
    ok(await p.registry.leave(team));
    expect(space.rightsAsked).toBe(0);
  });

  it('is owed nothing more from the moment the row says so, before the boundary is closed', async () => {
    const space = new Space();
    const closing = new Held<Boundary, { disposed: number }>();
    const p = await started(space, { ports: { boundary: { close: (b) => closing.call(b) } } });
    const { generation } = ok(await p.registry.join(team));
    const asked = p.registry.leave(team);
    await expect.poll(() => closing.waiting.length).toBe(1);
    space.post('team');
    p.decide();
    expect(space.copiesOf(alice)).toEqual([]);
    const member = lifecycleKey(alice);
    expect(p.registry.generationState(member, 'team', generation).state).toBe('leaving');
    expect(closing.waiting[0]?.arg).toEqual({
      member,
      channel: 'team',
      generation,
      leaveCursor: 0,
    });
    closing.waiting[0]?.go({ kind: 'done', value: { disposed: 2 } });
    expect(ok(await asked)).toMatchObject({ disposed: 2 });
    expect(p.registry.generationState(member, 'team', generation).state).toBe('closed');
  });

  it('then a join opens a new generation that reaches into nothing of the earlier interval', async () => {
    const space = new Space();
    const p = await started(space);
    const first = ok(await p.registry.join(team));
    space.post('team');
    space.post('team');
    p.decide();
    ok(await p.registry.leave(team));
    space.post('team');
    p.decide();
    const again = ok(await p.registry.join({ ...team, joinCursor: 1 }));
    expect(again.generation).toBeGreaterThan(first.generation);
    expect(again).toMatchObject({ joinCursor: 3, cursorSource: 'frontier' });
    expect(space.copiesOf(alice)).toEqual([]);
  });
});

describe('retire', () => {
  it('S102 closes every membership of the lifecycle and removes its rows; nobody else loses one', async () => {
    const space = new Space();
    const p = await started(space);
    for (const channel of ['a', 'b', 'c']) ok(await p.registry.join({ lifecycle: alice, channel }));
    ok(await p.registry.join({ lifecycle: bob, channel: 'a' }));
    for (const channel of ['a', 'b']) space.post(channel);
    p.decide();
    expect(ok(await p.registry.retire(alice))).toEqual({ removed: 3, disposed: 2 });
    expect(space.copiesOf(alice)).toEqual([]);
    expect(space.copiesOf(bob)).toHaveLength(1);
    expect([...space.members.keys()]).toEqual([`a/${lifecycleKey(bob)}`]);
    expect(p.registry.status()).toMatchObject({ rows: 1, working: 0 });
    expect(p.registry.generationState(lifecycleKey(alice), 'a', 1).state).toBe('absent');
  });

  it('S103 again, or of a lifecycle that is no member, is harmless', async () => {
    const p = await started(new Space());
    ok(await p.registry.join(team));
    ok(await p.registry.retire(alice));
    expect(ok(await p.registry.retire(alice))).toEqual({ removed: 0, disposed: 0 });
    expect(ok(await p.registry.retire(bob))).toEqual({ removed: 0, disposed: 0 });
  });

  it('refuses joins of the lifecycle while it lasts, and asked twice it answers both', async () => {
    const closing = new Held<Boundary, { disposed: number }>();
    const p = await started(new Space(), {
      ports: { boundary: { close: (b) => closing.call(b) } },
    });
    ok(await p.registry.join(team));
    const both = [p.registry.retire(alice), p.registry.retire(alice)];
    await expect.poll(() => closing.waiting.length).toBe(1);
    const late = await p.registry.join({ lifecycle: alice, channel: 'other' });
    expect(codeOf(late)).toBe('permission-denied not-executed');
    closing.waiting[0]?.go({ kind: 'done', value: { disposed: 0 } });
    for (const r of both) expect(ok(await r)).toEqual({ removed: 1, disposed: 0 });
  });

  it('a generation is never used again, even after the row that knew it is gone', async () => {
    const p = await started(new Space());
    const seen = new Set<number>();
    for (let i = 0; i < 3; i++) {
      seen.add(ok(await p.registry.join(team)).generation);
      ok(await p.registry.retire(alice));
    }
    expect(seen.size).toBe(3);
  });
});
