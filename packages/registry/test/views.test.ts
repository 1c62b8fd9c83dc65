import { lifecycleKey, refused } from '@plane3/protocol';
import { describe, expect, it } from 'vitest';
import { alice, boot, codeOf, ok, Space, started } from './rig.ts';

const team = { lifecycle: alice, channel: 'team' };
const member = lifecycleKey(alice);

describe('views', () => {
  it('a start that cannot read says why', async () => {
    const p = boot(new Space(), {
      store: (s) => Object.assign(s, { load: async () => refused('permission-denied', 'x') }),
    });
    expect(await p.registry.start()).toMatchObject({ reason: 'permission-denied' });
    expect(p.registry.status().state).toBe('starting');
  });

  it('S100 while they are not proved current members stay, and nothing is told about entries', async () => {
    let current = true;
    const p = await started(new Space(), {
      store: (s) => Object.assign(s, { isCurrent: () => current }),
    });
    ok(await p.registry.join(team));
    current = false;
    expect(p.registry.isCurrent()).toBe(false);
    expect(p.registry.status().state).toBe('not-current');
    expect([...p.registry.membersOf('team', 1)]).toHaveLength(1);
    expect(p.registry.generationState(member, 'team', 1)).toEqual({ state: 'cannot-tell' });
  });

  it('a recreated members bucket closes nobody: it stops the registry', async () => {
    const space = new Space();
    const p = await started(space, {
      ports: { catchUp: { copy: () => new Promise(() => {}) } },
    });
    const asked = p.registry.join(team);
    await expect.poll(() => p.registry.list(alice).length).toBe(1);
    space.members.recreate();
    expect(codeOf(await asked)).toBe('unavailable unknown');
    expect(p.registry.status().state).toBe('recreated');
    expect(p.registry.isCurrent()).toBe(false);
    expect(p.registry.list(alice)).toHaveLength(1);
    expect(p.reports.at(-1)?.event).toBe('registry.store-recreated');
  });

  it('a channel stream that is recreated under way stops the registry', async () => {
    const space = new Space();
    const p = await started(space);
    space.chat.recreate('2');
    expect(codeOf(await p.registry.join(team))).toBe('unavailable unknown');
    expect(p.registry.status().state).toBe('recreated');
  });

  it('after a recreated channel stream members are owed it from its start, and what is stored of the old one', async () => {
    const space = new Space();
    const before = await started(space);
    for (let i = 0; i < 5; i++) space.post('team');
    before.decide();
    const old = ok(await before.registry.join(team));
    await before.registry.stop();
    space.chat.recreate('2');
    space.posts = [];
    space.post('team');
    space.decided = 0;
    const p = await started(space);
    await expect.poll(() => p.registry.membershipOf(member, 'team')?.state).toBe('active');
    p.decide();
    const row = p.registry.membershipOf(member, 'team');
    expect(row).toMatchObject({ incarnation: '2', joinCursor: 0 });
    expect(space.copiesOf(alice)).toEqual([`${member} team ${row?.generation} 1`]);
    expect(p.registry.generationState(member, 'team', old.generation)).toMatchObject({
      state: 'active',
      interval: { incarnation: '1', joinCursor: 5 },
    });
    expect(p.reports.map((r) => r.event)).toContain('registry.rebase');
    ok(await p.registry.leave(team));
    expect(space.closed.map((b) => b.generation)).toEqual([row?.generation, old.generation]);
    expect(p.registry.generationState(member, 'team', old.generation).state).toBe('closed');
  });

  it('listeners hear each change of a row once', async () => {
    const p = await started(new Space());
    const heard: (string | undefined)[] = [];
    p.registry.onChange((_channel, _member, row) => heard.push(row?.state));
    ok(await p.registry.join(team));
    ok(await p.registry.retire(alice));
    // The echoes of all that come one turn later and are no news.
    await new Promise((r) => setImmediate(r));
    expect(heard).toEqual(['joining', 'active', 'leaving', 'closed', undefined]);
  });
});
