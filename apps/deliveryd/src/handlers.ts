import type {
  DeliveryHandlers,
  EndpointCode,
  HandlerContext,
  HandlerResult,
  ListedChannel,
  PendingMember,
  StatusData,
} from '@plane3/endpoint';
import type { LeaseRuntime } from '@plane3/lease';
import {
  CHANNEL_DEFAULTS_KEY,
  ERRORS,
  isChannel,
  type LifecycleKey,
  lifecycleKey,
  type Outcome,
  parseLifecycle,
  parsePrincipal,
  principalId,
  type SpaceNames,
} from '@plane3/protocol';
import type { Reader } from '@plane3/reader';
import type { Failure, Registry } from '@plane3/registry';
import type { ChannelDirectory } from './channels.ts';
import type { RightsDirectory } from './rights.ts';

/** How often an attached member renews; the reader takes it for gone a little later. */
const ATTACH_RENEW_MS = 15_000;
/** An attachment outlives one lost renewal. */
const ATTACH_RENEWALS = 2;
/** An answer is on its way at least this long before its caller's deadline. */
const ANSWER_SLACK_MS = 200;
/** Members named by one `pending` answer; an operator asks for one by name beyond that. */
const PENDING_MEMBERS_MAX = 1_000;

export interface HandlerParts {
  readonly names: SpaceNames;
  readonly registry: Registry;
  readonly reader: Reader;
  readonly windowEntries: number;
  readonly membersWithEntries: () => Promise<Outcome<ReadonlyMap<LifecycleKey, number>>>;
  readonly rights: RightsDirectory;
  readonly channels: ChannelDirectory;
  readonly lease: LeaseRuntime;
  readonly holder: string;
  readonly incarnation: string;
  readonly sinceMs: number;
  /** Last sequence of the channel stream, by its leader. */
  readonly frontier: () => Promise<Outcome<number>>;
  /** Rights up to this revision are applied, retractions that they cause included. */
  readonly settledRights: (revision: number, timeoutMs: number) => Promise<boolean>;
  readonly state: () => { readonly state: string; readonly reason?: string };
  readonly parts: () => StatusData['parts'];
}

const no = (
  code: EndpointCode,
  message: string,
  outcome: 'not-executed' | 'unknown' = 'not-executed',
): HandlerResult<never> => ({ ok: false, code, message, outcome });

const yes = <T>(data: T): HandlerResult<T> => ({ ok: true, data });

function fromFailure(f: Failure): HandlerResult<never> {
  const code =
    ERRORS[f.code].family === 'endpoint' ? (f.code as EndpointCode) : 'failed-precondition';
  return no(code, f.detail, f.outcome);
}

/** The commands of the delivery endpoint (wire contract section 6) over registry and reader. */
export function deliveryHandlers(p: HandlerParts): DeliveryHandlers {
  return { ...memberHandlers(p), ...operatorHandlers(p) };
}

/** A caller must be a lifecycle that the rights rows know; its subject is vouched for by the broker. */
function unknownCaller(p: HandlerParts, c: HandlerContext): HandlerResult<never> | undefined {
  const member = lifecycleKey(c.caller);
  if (p.rights.rowOf(member) !== undefined) return undefined;
  return p.rights.isCurrent
    ? no('unauthenticated', `${member} is not a lifecycle of this space`)
    : no('unavailable', 'the rights are not proved current');
}

function memberHandlers(p: HandlerParts): DeliveryHandlers {
  return {
    join: async (c, a) => {
      const answer = await p.registry.join({
        lifecycle: c.caller,
        channel: a.channel,
        ...(a.joinCursor === undefined ? {} : { joinCursor: a.joinCursor }),
      });
      return answer.ok ? yes(answer.data) : fromFailure(answer);
    },
    leave: async (c, a) => {
      const answer = await p.registry.leave({
        lifecycle: c.caller,
        channel: a.channel,
        ...(a.generation === undefined ? {} : { generation: a.generation }),
      });
      return answer.ok ? yes(answer.data) : fromFailure(answer);
    },
    list: async (c) => {
      const unknown = unknownCaller(p, c);
      if (unknown !== undefined) return unknown;
      const frontier = await p.frontier();
      if (frontier.kind !== 'done') return no('unavailable', 'the frontier cannot be read');
      return yes({
        memberships: p.registry.list(c.caller),
        gaps: [],
        channels: readableChannels(p, lifecycleKey(c.caller), c, frontier.value),
      });
    },
    attach: async (c, a) => {
      const unknown = unknownCaller(p, c);
      if (unknown !== undefined) return unknown;
      if (a.mode === 'direct')
        return no('unimplemented', 'direct hand-over is not served: use dlv');
      const member = lifecycleKey(c.caller);
      p.reader.attached(member, { forMs: ATTACH_RENEW_MS * ATTACH_RENEWALS });
      const waitMs = Math.max(0, c.deadlineMs - ANSWER_SLACK_MS);
      const handedOver = await p.reader.whenHandedOver(member, waitMs);
      if (handedOver.kind !== 'done')
        return no('unavailable', 'what waits was not handed over in time', 'unknown');
      return yes({
        mode: a.mode,
        window: Math.min(a.window, p.windowEntries),
        renewMs: ATTACH_RENEW_MS,
        handedOver: handedOver.value,
      });
    },
    detach: async (c, a) => {
      const unknown = unknownCaller(p, c);
      if (unknown !== undefined) return unknown;
      p.reader.detached(lifecycleKey(c.caller));
      return yes({ mode: a.mode });
    },
    health: async () =>
      yes({
        state: p.state().state,
        incarnation: p.incarnation,
        since: p.sinceMs,
        observedAt: Date.now(),
      }),
  };
}

/** Channels with a name that the caller may read: its own, the configured, those it is in. */
function readableChannels(
  p: HandlerParts,
  member: LifecycleKey,
  c: HandlerContext,
  frontier: number,
): ListedChannel[] {
  const known = new Set<string>();
  for (const pattern of p.rights.rowOf(member)?.allowSubscribe ?? [])
    if (isChannel(pattern)) known.add(pattern);
  for (const [channel] of p.channels.view.entries())
    if (channel !== CHANNEL_DEFAULTS_KEY) known.add(channel);
  for (const m of p.registry.list(c.caller)) known.add(m.channel);
  return [...known]
    .filter((channel) => p.rights.mayRead(member, channel))
    .sort()
    .map((channel) => ({ channel, class: p.channels.classOf(channel), frontier }));
}

function operatorHandlers(p: HandlerParts): DeliveryHandlers {
  return {
    status: async () => {
      const lease = p.lease.status();
      const ageMs = lease.ttlMs === undefined ? 0 : Math.max(0, lease.ttlMs - lease.trustedForMs);
      return yes({
        ...p.state(),
        incarnation: p.incarnation,
        since: p.sinceMs,
        observedAt: Date.now(),
        pid: process.pid,
        lease: { holder: p.holder, ageMs },
        parts: p.parts(),
      });
    },
    pending: async (_, a) => {
      const members = await membersToReport(p, a.member);
      if (members === undefined) return no('unavailable', 'the store did not answer');
      const out: PendingMember[] = [];
      for (const member of members.slice(0, PENDING_MEMBERS_MAX)) {
        const counts = await p.reader.pendingOf(member);
        const lifecycle = parseLifecycle(member);
        if (counts.kind !== 'done' || lifecycle === undefined)
          return no('unavailable', 'the store did not answer');
        const { pending, handedOver, withheld, oldestAgeMs } = counts.value;
        out.push({
          member: principalId(lifecycle),
          uid: lifecycle.uid,
          pending,
          handedOver,
          withheld,
          oldestAgeMs: oldestAgeMs ?? null,
        });
      }
      return yes({ members: out, asOf: Date.now() });
    },
    members: async (_, a) => {
      if (!p.registry.isCurrent())
        return no('unavailable', 'the memberships are not proved current');
      const members = [...p.registry.rowsOf(a.channel)].flatMap((row) => {
        const lifecycle = parseLifecycle(row.member);
        if (lifecycle === undefined) return [];
        return [
          {
            member: principalId(lifecycle),
            uid: lifecycle.uid,
            generation: row.generation,
            state: row.state,
            joinCursor: row.joinCursor,
            ...(row.leaveCursor === undefined ? {} : { leaveCursor: row.leaveCursor }),
          },
        ];
      });
      return yes({ channel: a.channel, members, asOf: Date.now() });
    },
    settled: async (c, a) => {
      if (a.bucket !== p.names.buckets.acl) return no('not-found', `nothing settles ${a.bucket}`);
      const reached = await p.settledRights(
        a.revision,
        Math.max(0, c.deadlineMs - ANSWER_SLACK_MS),
      );
      if (!reached) return no('deadline-exceeded', 'the rights are not settled yet', 'unknown');
      return yes({ ...a, applied: p.rights.view.revision });
    },
  };
}

/** One lifecycle, all living ones of a principal, or everybody who has entries. */
async function membersToReport(
  p: HandlerParts,
  asked: string | undefined,
): Promise<LifecycleKey[] | undefined> {
  const stored = await p.membersWithEntries();
  if (stored.kind !== 'done') return undefined;
  const keys = new Set<LifecycleKey>(stored.value.keys());
  if (asked === undefined) return [...keys].sort();
  if (parseLifecycle(asked) !== undefined) return [asked];
  const principal = parsePrincipal(asked);
  if (principal === undefined) return [];
  for (const [key] of p.rights.view.entries()) if (p.rights.isLive(key)) keys.add(key);
  return [...keys].filter((key) => key.startsWith(`${principalId(principal)}.`)).sort();
}
