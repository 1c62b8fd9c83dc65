import { openMember } from '@plane3/member';
import { startNats } from '@plane3/testkit';
import { expect, test, vi } from 'vitest';
import { ALICE, NAMES, openTestLink, startDaemon } from './world.ts';

const { prefix } = NAMES;

/** Everybody is one user, who may subscribe to the rails, to inboxes and to these channels. */
const config = (channels: readonly string[]): string => {
  const rails = [`${prefix}.ep.>`, '*.*.*'];
  const subscribe = [...rails, ...channels.map((c) => `${prefix}.chat.*.*.${c}`)];
  return `
  authorization { users = [
    { user: all, password: x, permissions: { subscribe: ${JSON.stringify(subscribe)} } }
  ] }
  no_auth_user: all
`;
};

test('a subscription that the broker refuses, at once or late, leaves no membership behind', async () => {
  const broker = await startNats({ config: config(['team']) });
  const agentLink = await openTestLink(broker, 'agent');
  const daemonLink = await openTestLink(broker, 'daemon');
  const daemon = await startDaemon(daemonLink, {
    handlers: {
      list: () =>
        Promise.resolve({
          ok: true,
          data: {
            memberships: [],
            gaps: [],
            channels: ['team', 'secret'].map((channel) => ({
              channel,
              class: 'durable' as const,
              frontier: 7,
            })),
          },
        }),
    },
  });
  const alice = await openMember({
    space: 'main',
    lifecycle: ALICE,
    link: agentLink,
    presence: false,
  });
  const refused = await alice.join('secret');
  expect(refused).toMatchObject({ live: false, durable: false });
  expect(refused.reason).toBe(`permission-denied: permission denied: ${prefix}.chat.*.*.secret`);
  expect(daemon.joins).toEqual([]);

  expect(await alice.join('team')).toMatchObject({ durable: true });
  await broker.reload(config([]));
  await vi.waitFor(() => expect(daemon.leaves).toEqual([{ channel: 'team', generation: 3 }]), {
    timeout: 10_000,
  });
  expect(alice.state().channels.find((c) => c.channel === 'team')).toMatchObject({
    live: false,
    durable: false,
    reason: `permission-denied: permission denied: ${prefix}.chat.*.*.team`,
  });
  await alice.close();
  await agentLink.close();
  await daemonLink.close();
  await broker.stop();
});
