import { lifecycleKey, refused, unknown } from '@plane3/protocol';
import { DEFAULT_SETTINGS } from '@plane3/registry';
import { describe, expect, it } from 'vitest';
import { alice, bob, boot, codeOf, lifecycle, ok, Space, started } from './rig.ts';

describe('join', () => {
  it('without a claim begins at the frontier, and what is posted afterwards is owed', async () => {
    const space = new Space();
    space.post('team');
    const p = await started(space);
    const joined = ok(await p.registry.join({ lifecycle: alice, channel: 'team' }));
    expect(joined).toEqual({
      durable: true,
      generation: 1,
      joinCursor: 1,
      cursorSource: 'frontier',
    });
    space.post('team');
    p.decide();
    expect(space.copiesOf(alice)).toEqual([`${lifecycleKey(alice)} team 1 2`]);
  });

  it('is idempotent: the same generation and cursor, and nothing is written', async () => {
    const space = new Space();
    const p = await started(space);
    const first = ok(await p.registry.join({ lifecycle: alice, channel: 'team' }));
    const writes = space.members.lastSeq;
    space.post('team');
    const again = ok(await p.registry.join({ lifecycle: alice, channel: 'team', joinCursor: 1 }));
    expect(again).toEqual(first);
    expect(space.members.lastSeq).toBe(writes);
  });

  it('S1 with the frontier that was asked with first is caught up before it is durable', async () => {
    const space = new Space();
    space.post('team');
    for (const c of ['team', 'other', 'team']) space.post(c);
    const p = await started(space);
    p.decide();
    const joined = ok(await p.registry.join({ lifecycle: alice, channel: 'team', joinCursor: 1 }));
    expect(joined).toMatchObject({ joinCursor: 1, cursorSource: 'client' });
    expect(space.copiesOf(alice).map((c) => c.split(' ').at(-1))).toEqual(['2', '4']);
  });

  it('S1 is refused while the memberships are not loaded, never called durable', async () => {
    const p = boot(new Space());
    const a = await p.registry.join({ lifecycle: alice, channel: 'team' });
    expect(codeOf(a)).toBe('unavailable not-executed');
  });

  it('never asserts its own membership: a cursor above the frontier becomes the frontier', async () => {
    const space = new Space();
    space.post('team');
    const p = await started(space);
    const joined = ok(await p.registry.join({ lifecycle: alice, channel: 'team', joinCursor: 9 }));
    expect(joined).toMatchObject({ joinCursor: 1, cursorSource: 'frontier' });
    expect(joined.lost).toBeUndefined();
  });

  it('further back than the window in posts is durable from the frontier and says what is lost', async () => {
    const space = new Space();
    for (let i = 0; i < 12; i++) space.post('team');
    const p = await started(space, { settings: { windowPosts: 10 } });
    const at = ok(await p.registry.join({ lifecycle: alice, channel: 'team', joinCursor: 1 }));
    expect(at).toMatchObject({
      joinCursor: 12,
      cursorSource: 'frontier',
      lost: { from: 2, to: 12 },
    });
    const within = ok(await p.registry.join({ lifecycle: bob, channel: 'team', joinCursor: 2 }));
    expect(within).toMatchObject({ joinCursor: 2, cursorSource: 'client' });
  });

  it('further back than the window in time is durable from the frontier', async () => {
    const space = new Space();
    space.post('team');
    space.post('team');
    space.chat.nowMs = DEFAULT_SETTINGS.windowAgeMs + 1;
    space.post('team');
    const p = await started(space);
    const old = ok(await p.registry.join({ lifecycle: alice, channel: 'team', joinCursor: 1 }));
    expect(old).toMatchObject({ joinCursor: 3, lost: { from: 2, to: 3 } });
    const young = ok(await p.registry.join({ lifecycle: bob, channel: 'team', joinCursor: 2 }));
    expect(young).toMatchObject({ joinCursor: 2, cursorSource: 'client' });
  });

  it('names a range that the channel stream no longer keeps, also when asked again', async () => {
    const space = new Space();
    for (let i = 0; i < 4; i++) space.post('team');
    space.lost = { from: 2, to: 3 };
    const p = await started(space);
    p.decide();
    const request = { lifecycle: alice, channel: 'team', joinCursor: 1 };
    const joined = ok(await p.registry.join(request));
    expect(joined).toMatchObject({ joinCursor: 1, lost: { from: 2, to: 3 } });
    const next = await started(space);
    expect(ok(await next.registry.join(request))).toEqual(joined);
    expect(p.reports.map((r) => r.event)).toContain('registry.lost');
  });

  it.each([
    ['team.>', 'a pattern'],
    ['*', 'a pattern'],
    ['team..a', 'malformed'],
    ['', 'empty'],
    ['team/a', 'malformed'],
  ])('of %j is a bad request (%s)', async (channel) => {
    const p = await started(new Space());
    const a = await p.registry.join({ lifecycle: alice, channel });
    expect(codeOf(a)).toBe('bad-request not-executed');
    expect(p.registry.status().requests).toBe(0);
  });

  it.each([-1, 1.5, Number.NaN, 2 ** 60])('with the cursor %j is a bad request', async (cursor) => {
    const p = await started(new Space());
    const a = await p.registry.join({ lifecycle: alice, channel: 'team', joinCursor: cursor });
    expect(codeOf(a)).toBe('bad-request not-executed');
  });

  it.each([
    ['refuse', 'permission-denied not-executed'],
    ['unknown-lifecycle', 'unauthenticated not-executed'],
    ['cannot-tell', 'unavailable not-executed'],
  ] as const)('with the right answered %s is %s, and nothing is written', async (right, code) => {
    const space = new Space();
    space.right = right;
    const p = await started(space);
    expect(codeOf(await p.registry.join({ lifecycle: alice, channel: 'team' }))).toBe(code);
    expect(space.members.lastSeq).toBe(0);
    expect(p.registry.status()).toMatchObject({ working: 0, requests: 0 });
  });

  it('a right that was taken back is refused to one who is a member already', async () => {
    const space = new Space();
    const p = await started(space);
    ok(await p.registry.join({ lifecycle: alice, channel: 'team' }));
    space.right = 'refuse';
    const a = await p.registry.join({ lifecycle: alice, channel: 'team' });
    expect(codeOf(a)).toBe('permission-denied not-executed');
    expect(space.rowOf(alice, 'team')?.state).toBe('active');
  });

  it('without a readable frontier is unavailable at its bound, and nothing is written', async () => {
    const space = new Space();
    let healthy = true;
    const p = await started(space, {
      ports: { frontier: { read: async (b) => (healthy ? space.chat.read(b) : unknown('down')) } },
    });
    healthy = false;
    const asked = p.registry.join({ lifecycle: alice, channel: 'team' });
    await expect.poll(() => p.timers.size).toBe(2);
    p.timers.run(DEFAULT_SETTINGS.answerWithinMs);
    expect(codeOf(await asked)).toBe('unavailable not-executed');
    expect(space.members.lastSeq).toBe(0);
    expect(p.registry.status().working).toBe(0);
  });

  it('into a full store is resource-exhausted', async () => {
    const p = await started(new Space(), {
      store: (s) => Object.assign(s, { write: async () => refused('store-full') }),
    });
    const a = await p.registry.join({ lifecycle: alice, channel: 'team' });
    expect(codeOf(a)).toBe('resource-exhausted not-executed');
    expect(p.registry.status().working).toBe(0);
  });
});

describe('rows', () => {
  it('two lifecycles of one name never share a row', async () => {
    const space = new Space();
    const p = await started(space);
    const later = lifecycle('alice', 'z');
    const a = ok(await p.registry.join({ lifecycle: alice, channel: 'team' }));
    space.post('team');
    const b = ok(await p.registry.join({ lifecycle: later, channel: 'team' }));
    expect(b.joinCursor).toBe(a.joinCursor + 1);
    ok(await p.registry.leave({ lifecycle: alice, channel: 'team' }));
    expect(p.registry.list(later)).toHaveLength(1);
    expect(p.registry.list(alice)).toEqual([]);
  });

  it('a channel and the one below it are two memberships', async () => {
    const space = new Space();
    const p = await started(space);
    ok(await p.registry.join({ lifecycle: alice, channel: 'team.a' }));
    ok(await p.registry.join({ lifecycle: alice, channel: 'team' }));
    expect(p.registry.list(alice).map((m) => [m.channel, m.activated])).toEqual([
      ['team', true],
      ['team.a', true],
    ]);
    expect([...p.registry.membersOf('team', 1)]).toHaveLength(1);
  });

  it('S143 have their whole shape in the store', async () => {
    const space = new Space();
    space.post('team');
    const p = await started(space);
    ok(await p.registry.join({ lifecycle: alice, channel: 'team' }));
    expect(space.rowOf(alice, 'team')).toEqual({
      v: 1,
      channel: 'team',
      principal: 'local.alice',
      uid: 'a'.repeat(26),
      state: 'active',
      generation: 1,
      incarnation: '1',
      joinCursor: 1,
      cursorSource: 'frontier',
      writer: expect.stringMatching(/^w\d+$/),
      past: [],
    });
  });
});
