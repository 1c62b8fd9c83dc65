import { lifecycleKey } from '@plane3/protocol';
import { encodeRow, membershipKey } from '@plane3/registry';
import { expect, it } from 'vitest';
import { lifecycle, ok, Space, started } from './rig.ts';

const uid = (n: number): string => n.toString(36).padStart(26, '0');

/** `channels` × `each` active memberships, as an earlier process left them. */
function populate(space: Space, channels: number, each: number): void {
  for (let c = 0; c < channels; c++)
    for (let m = 0; m < each; m++) {
      const member = lifecycleKey({ owner: 'local', actor: `m${m}`, uid: uid(m) });
      const row = {
        channel: `c${c}`,
        member,
        state: m % 10 === 9 ? ('closed' as const) : ('active' as const),
        generation: 1,
        incarnation: '1',
        joinCursor: 0,
        cursorSource: 'frontier' as const,
        ...(m % 10 === 9 ? { leaveCursor: 0 } : {}),
        writer: 'w0',
        past: [],
      };
      space.members.set(membershipKey(row.channel, member), encodeRow(row), 0);
    }
}

it('a post costs the members of its channel, however many memberships there are', async () => {
  const space = new Space();
  populate(space, 1_000, 10);
  const p = await started(space);
  expect(p.registry.status()).toMatchObject({ rows: 10_000, working: 0 });
  expect([...p.registry.membersOf('c7', 1)]).toHaveLength(9);
  expect([...p.registry.rowsOf('c7')]).toHaveLength(10);
  expect([...p.registry.membersOf('nobody', 1)]).toHaveLength(0);
});

it('a change among 10,000 members of one channel touches one row', async () => {
  const space = new Space();
  populate(space, 1, 10_000);
  const p = await started(space);
  const changed: string[] = [];
  p.registry.onChange((_channel, member) => changed.push(member));
  const dave = lifecycle('dave');
  ok(await p.registry.join({ lifecycle: dave, channel: 'c0' }));
  ok(await p.registry.leave({ lifecycle: dave, channel: 'c0' }));
  expect(new Set(changed)).toEqual(new Set([lifecycleKey(dave)]));
  expect([...p.registry.membersOf('c0', 1)]).toHaveLength(9_000);
});
