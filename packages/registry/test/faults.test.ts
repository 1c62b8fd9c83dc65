import { done, lifecycleKey, type Outcome, refused, unknown } from '@plane3/protocol';
import {
  type CatchUpRange,
  DEFAULT_SETTINGS,
  type MembershipRow,
  type MembershipStore,
  type SeqRange,
} from '@plane3/registry';
import { describe, expect, it } from 'vitest';
import { alice, bob, codeOf, Held, ok, Space, started } from './rig.ts';

const team = { lifecycle: alice, channel: 'team' };
const BOUND_MS = DEFAULT_SETTINGS.answerWithinMs;
const member = lifecycleKey(alice);

describe('a join that cannot be activated now', () => {
  it('is answered in time as unavailable, never as durable, and finished in the background', async () => {
    const space = new Space();
    const catching = new Held<CatchUpRange, { lost?: SeqRange }>();
    const p = await started(space, { ports: { catchUp: { copy: (r) => catching.call(r) } } });
    const asked = p.registry.join(team);
    await expect.poll(() => catching.waiting.length).toBe(1);
    p.timers.run(BOUND_MS);
    expect(codeOf(await asked)).toBe('unavailable unknown');
    expect(p.registry.list(alice)).toMatchObject([{ channel: 'team', activated: false }]);
    space.post('team');
    p.decide();
    expect(space.copiesOf(alice)).toHaveLength(1); // owed from the moment it is recorded
    catching.waiting[0]?.go(done({}));
    await expect.poll(() => p.registry.list(alice)[0]?.activated).toBe(true);
    expect(ok(await p.registry.join(team))).toMatchObject({ durable: true, joinCursor: 0 });
  });

  it('is tried again with growing pauses', async () => {
    const tries: number[] = [];
    const space = new Space();
    const p = await started(space, {
      ports: {
        catchUp: {
          copy: async () => (tries.push(1) < 4 ? refused('store-full') : done({})),
        },
      },
    });
    const asked = p.registry.join(team);
    for (const ms of [100, 200, 400]) {
      await expect.poll(() => p.timers.size).toBe(2);
      const before = tries.length;
      p.timers.run(ms - 1);
      expect(tries.length).toBe(before);
      p.timers.run(ms);
      await expect.poll(() => tries.length).toBe(before + 1);
    }
    ok(await asked);
    expect(p.reports.filter((r) => r.event === 'registry.backing-off')).toHaveLength(2);
  });

  it('gives way to a leave: it does not have to be finished first', async () => {
    const space = new Space();
    const catching = new Held<CatchUpRange, { lost?: SeqRange }>();
    const p = await started(space, { ports: { catchUp: { copy: (r) => catching.call(r) } } });
    const asked = p.registry.join(team);
    await expect.poll(() => catching.waiting.length).toBe(1);
    p.timers.run(BOUND_MS);
    await asked;
    expect(ok(await p.registry.leave(team))).not.toHaveProperty('alreadyLeft');
    catching.waiting[0]?.go(done({}));
    await Promise.resolve();
    expect(space.rowOf(alice, 'team')?.state).toBe('closed');
  });

  it('is not ended by a leave that is refused', async () => {
    const space = new Space();
    const catching = new Held<CatchUpRange, { lost?: SeqRange }>();
    const p = await started(space, { ports: { catchUp: { copy: (r) => catching.call(r) } } });
    const asked = p.registry.join(team);
    await expect.poll(() => catching.waiting.length).toBe(1);
    p.timers.run(BOUND_MS);
    await asked;
    const refusal = await p.registry.leave({ ...team, generation: 77 });
    expect(codeOf(refusal)).toBe('conflict not-executed');
    p.timers.run(DEFAULT_SETTINGS.retryFirstMs);
    catching.waiting[0]?.go(done({}));
    await expect.poll(() => space.rowOf(alice, 'team')?.state).toBe('active');
    expect(catching.waiting).toHaveLength(1); // the one under way was waited for again
  });

  it('delays nobody else', async () => {
    const space = new Space();
    const p = await started(space, {
      ports: {
        catchUp: {
          copy: (r) =>
            r.row.member === member ? new Promise(() => {}) : Promise.resolve(done({})),
        },
      },
    });
    void p.registry.join(team);
    ok(await p.registry.join({ lifecycle: bob, channel: 'team' }));
  });

  it('waits while fan-out has not read its cursor', async () => {
    const space = new Space();
    let known = false;
    const p = await started(space, {
      ports: { position: { decided: () => (known ? { incarnation: '1', seq: 0 } : undefined) } },
    });
    const asked = p.registry.join(team);
    await expect.poll(() => p.timers.size).toBe(2);
    known = true;
    p.timers.run(DEFAULT_SETTINGS.retryFirstMs);
    ok(await asked);
  });
});

describe('bounds', () => {
  it('more requests for one membership than it may have waiting are refused by name', async () => {
    const p = await started(new Space(), {
      ports: { catchUp: { copy: () => new Promise(() => {}) } },
      settings: { requestsPerKeyMax: 2 },
    });
    const waiting = [p.registry.join(team), p.registry.join(team)];
    await expect.poll(() => p.registry.list(alice).length).toBe(1);
    const third = await p.registry.join(team);
    expect(third).toMatchObject({ code: 'resource-exhausted', detail: 'requestsPerKeyMax 2' });
    ok(await p.registry.leave({ lifecycle: bob, channel: 'team' })); // another key has its own
    p.timers.run(BOUND_MS);
    for (const w of waiting) expect(codeOf(await w)).toBe('unavailable unknown');
  });

  it('more requests than there may be are refused by name', async () => {
    const p = await started(new Space(), {
      ports: { catchUp: { copy: () => new Promise(() => {}) } },
      settings: { requestsMax: 1 },
    });
    void p.registry.join(team);
    const second = await p.registry.join({ lifecycle: bob, channel: 'team' });
    expect(second).toMatchObject({ code: 'resource-exhausted', detail: 'requestsMax 1' });
  });

  it('at most so many catch-ups run at a time, and the others follow in turn', async () => {
    const space = new Space();
    const catching = new Held<CatchUpRange, { lost?: SeqRange }>();
    const p = await started(space, {
      ports: { catchUp: { copy: (r) => catching.call(r) } },
      settings: { catchUpsMax: 2 },
    });
    const channels = ['a', 'b', 'c', 'd', 'e'];
    const asked = channels.map((channel) => p.registry.join({ lifecycle: alice, channel }));
    for (let i = 0; i < channels.length; i++) {
      await expect.poll(() => catching.waiting.length).toBe(Math.min(i + 2, channels.length));
      catching.waiting[i]?.go(done({}));
    }
    for (const a of asked) ok(await a);
  });

  it('stopping answers everything that is open and begins nothing more', async () => {
    const p = await started(new Space(), {
      ports: { catchUp: { copy: () => new Promise(() => {}) } },
    });
    const asked = p.registry.join(team);
    await p.registry.stop();
    expect(codeOf(await asked)).toBe('unavailable unknown');
    expect(codeOf(await p.registry.join(team))).toBe('unavailable not-executed');
    expect(p.timers.size).toBe(0);
    expect(p.registry.isCurrent()).toBe(false);
  });
});

/** A store whose writes are answered as the test says; what they do is another matter. */
const writing =
  (answer: (write: () => Promise<Outcome<number>>) => Promise<Outcome<number>>) =>
  (s: MembershipStore): MembershipStore => {
    const write = s.write.bind(s);
    return Object.assign(s, {
      write: (key: string, row: MembershipRow, expected: number) =>
        answer(() => write(key, row, expected) as Promise<Outcome<number>>),
    });
  };

describe('writes', () => {
  it('an unanswered write that is there is read back and not written again', async () => {
    const space = new Space();
    const p = await started(space, {
      store: writing(async (write) => {
        await write();
        return unknown('no answer');
      }),
    });
    ok(await p.registry.join(team));
    expect(space.members.lastSeq).toBe(2); // joining, active
    expect(p.registry.status().counters).toMatchObject({ unknownWrites: 2, conflicts: 0 });
  });

  it('an unanswered write that is not there is written again', async () => {
    const space = new Space();
    let calls = 0;
    const p = await started(space, {
      store: writing((write) => (++calls % 2 === 1 ? Promise.resolve(unknown('lost')) : write())),
    });
    const asked = p.registry.join(team);
    for (const rounds of [1, 3]) {
      await expect.poll(() => calls).toBe(rounds);
      await expect.poll(() => p.timers.size).toBe(2);
      p.timers.run(DEFAULT_SETTINGS.retryFirstMs);
    }
    ok(await asked);
    expect(space.members.lastSeq).toBe(2);
  });

  it('S143 a conflicting writer is reported and retried on the fresh revision', async () => {
    const space = new Space();
    const p = await started(space);
    ok(await p.registry.join(team));
    const row = p.registry.membershipOf(member, 'team');
    if (row === undefined) throw new Error('no row');
    space.plant({ ...row, writer: 'rival' }); // its echo is still under way
    ok(await p.registry.leave(team));
    expect(space.rowOf(alice, 'team')?.state).toBe('closed');
    const events = p.reports.map((r) => r.event);
    expect(events).toContain('registry.foreign-change');
  });

  it('S143 more conflicts than are bounded end the request with that name', async () => {
    const space = new Space();
    const p = await started(space, { settings: { conflictsMax: 2 } });
    ok(await p.registry.join(team));
    let calls = 0;
    const other = await started(space, {
      settings: { conflictsMax: 2 },
      store: (s) => {
        const write = s.write.bind(s);
        return Object.assign(s, {
          write: (key: string, row: MembershipRow, expected: number) => {
            const there = space.rowOf(alice, 'team') as MembershipRow;
            space.plant({ ...there, member, writer: `rival${++calls}` });
            return write(key, row, expected);
          },
        });
      },
    });
    const a = await other.registry.leave(team);
    expect(codeOf(a)).toBe('conflict not-executed');
    expect(calls).toBe(3);
    expect(other.reports.filter((r) => r.event === 'registry.conflict')).toHaveLength(3);
    expect(space.rowOf(alice, 'team')?.state).toBe('active');
  });

  it('a row that another process activated is caught up here before it counts', async () => {
    const space = new Space();
    const p = await started(space);
    space.post('team');
    p.decide(); // decided without the member
    space.plant({
      channel: 'team',
      member,
      state: 'active',
      generation: 1,
      incarnation: '1',
      joinCursor: 0,
      cursorSource: 'frontier',
      writer: 'stale',
      past: [],
    });
    await expect.poll(() => space.rowOf(alice, 'team')?.writer).not.toBe('stale');
    await expect.poll(() => space.rowOf(alice, 'team')?.state).toBe('active');
    expect(space.copiesOf(alice)).toEqual([`${member} team 1 1`]);
  });
});
