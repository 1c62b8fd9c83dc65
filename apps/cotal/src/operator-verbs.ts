import type { DeliveryCalls, DeliveryCommand } from '@plane3/endpoint';
import { Caller } from '@plane3/endpoint/nats';
import { Plane3Error, principalId } from '@plane3/protocol';
import { type MeshContext, openStanding, requireAuth } from './context.ts';
import { requireChannel } from './member-verbs.ts';
import { ago, table } from './output.ts';
import { proved } from './up.ts';

const ASK_DEADLINE_MS = 5_000;

/** Asks the daemon one operator command; its refusal is the verb's failure. */
async function ask<C extends DeliveryCommand>(
  mesh: MeshContext,
  command: C,
  args: DeliveryCalls[C]['args'],
): Promise<DeliveryCalls[C]['data']> {
  requireAuth(mesh, command);
  const { link, lifecycle } = await openStanding(mesh, 'operator');
  try {
    const caller = proved(
      await Caller.open({ link, prefix: mesh.names.prefix, caller: lifecycle }),
    );
    const answer = await caller.call(command, args, { deadlineMs: ASK_DEADLINE_MS });
    caller.close();
    if (answer.ok) return answer.data;
    throw new Plane3Error(answer.code, { detail: answer.message });
  } finally {
    await link.close();
  }
}

export async function pending(mesh: MeshContext, name: string | undefined): Promise<void> {
  const member = name === undefined ? undefined : principalId({ owner: 'local', actor: name });
  const answer = await ask(mesh, 'pending', member === undefined ? {} : { member });
  const rows = answer.members.map((m) => ({
    member: m.member,
    uid: m.uid,
    pending: m.pending,
    handed_over: m.handedOver,
    withheld: m.withheld,
    oldest_age_ms: m.oldestAgeMs,
    as_of: new Date(answer.asOf).toISOString(),
  }));
  if (member !== undefined && rows.length === 0)
    throw new Plane3Error('agent-unknown', { detail: member });
  mesh.out.data(member === undefined ? rows : rows.at(-1), () =>
    table(
      ['member', 'pending', 'handed over', 'withheld', 'oldest'],
      rows.map((r) => [
        r.member,
        r.pending,
        r.handed_over,
        Object.entries(r.withheld)
          .map(([why, n]) => `${n} ${why}`)
          .join(', '),
        r.oldest_age_ms === null ? '' : ago(r.oldest_age_ms),
      ]),
    ),
  );
}

export async function members(mesh: MeshContext, channel: string): Promise<void> {
  requireChannel(channel);
  const answer = await ask(mesh, 'members', { channel });
  const durable = answer.members.map((m) => ({
    member: m.member,
    uid: m.uid,
    generation: m.generation,
    state: m.state,
    join_cursor: m.joinCursor,
    leave_cursor: m.leaveCursor ?? null,
  }));
  // Nobody observes live subscriptions for the daemon yet; "unknown" is not "nobody".
  const value = { channel, durable, live: null, as_of: new Date(answer.asOf).toISOString() };
  mesh.out.data(value, () =>
    [
      table(
        ['durable member', 'state', 'generation', 'from'],
        durable.map((m) => [m.member, m.state, m.generation, m.join_cursor]),
      ),
      'live: unknown (no membership feed)',
    ].join('\n'),
  );
}
