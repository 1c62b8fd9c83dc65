import type { Lifecycle, SpaceNames } from '@plane3/protocol';
import { type AgentRights, agentLines } from './grants/agent.ts';
import { deliveryLines, deliveryVaultLines } from './grants/delivery.ts';
import type { GrantLine } from './grants/lines.ts';
import {
  deprovisionerLines,
  endpointAuthorLines,
  managerLines,
  managerVaultLines,
  membershipRwLines,
  observerLines,
  operatorLines,
  operatorVaultLines,
  provisionerLines,
  provisionerVaultLines,
  recordWriterLines,
} from './grants/operator.ts';
import {
  claimsPusherLines,
  connectionEvictorLines,
  membershipObserverLines,
} from './grants/system.ts';
import type { Account } from './trust.ts';

/** What each profile is minted for, beside its lifecycle. */
export interface ProfileArguments {
  agent: Omit<AgentRights, 'lifecycle'>;
  delivery: object;
  'delivery-vault': object;
  operator: object;
  'operator-vault': object;
  'endpoint-author': { readonly endpoint: string; readonly instanceId: string };
  'record-writer': { readonly endpoint: string };
  provisioner: object;
  'provisioner-vault': object;
  deprovisioner: object;
  manager: object;
  'manager-vault': object;
  observer: object;
  'membership-observer': object;
  'connection-evictor': object;
  'membership-rw': object;
  'claims-pusher': object;
}
export type ProfileName = keyof ProfileArguments;

/** Facts that every profile's lines may name. */
export interface GrantContext {
  readonly names: SpaceNames;
  readonly lifecycle: Lifecycle;
  /** Public key of the user that is minted: it keys the reply inbox. */
  readonly userKey: string;
  /** Public key of the account in which the agents are. */
  readonly spaceAccountKey: string;
}

export interface Profile<P extends ProfileName> {
  readonly account: Account;
  readonly lifetimeMs: number;
  /** One sentence for the reference page. */
  readonly summary: string;
  readonly lines: (c: GrantContext, a: ProfileArguments[P]) => GrantLine[];
}

const DAY_MS = 86_400_000;
export const STANDING_LIFETIME_MS = DAY_MS;
export const SYSTEM_LIFETIME_MS = 30 * DAY_MS;
export const AGENT_LIFETIME_MS = 30 * DAY_MS;
export const ONE_SHOT_LIFETIME_MS = 5 * 60_000;

/**
 * The one table of rights (wire contract section 8). Minting, the reference page and the probes
 * read it. Default deny: what no line names is refused by the broker.
 */
export const PROFILES: { readonly [P in ProfileName]: Profile<P> } = {
  agent: {
    account: 'space',
    lifetimeMs: AGENT_LIFETIME_MS,
    summary: 'An agent: posts as itself, reads what it may, its own durables, the member commands.',
    lines: (c, a) => agentLines(c.names, { ...a, lifecycle: c.lifecycle }, c.userKey),
  },
  delivery: {
    account: 'space',
    lifetimeMs: STANDING_LIFETIME_MS,
    summary: 'The delivery daemon among the agents: posts, hand-over, endpoint, timers.',
    lines: (c) => deliveryLines(c.names, c.userKey),
  },
  'delivery-vault': {
    account: 'vault',
    lifetimeMs: STANDING_LIFETIME_MS,
    summary: 'The delivery daemon in the vault: member store, memberships, lease.',
    lines: (c) => deliveryVaultLines(c.names, c.userKey),
  },
  operator: {
    account: 'space',
    lifetimeMs: STANDING_LIFETIME_MS,
    summary: 'An operator: the operator commands, and taking hand-overs back.',
    lines: (c) => operatorLines(c.names, c.lifecycle, c.userKey),
  },
  'operator-vault': {
    account: 'vault',
    lifetimeMs: STANDING_LIFETIME_MS,
    summary: 'An operator in the vault: rights and channel configuration; counts, no content.',
    lines: (c) => operatorVaultLines(c.names, c.userKey),
  },
  'endpoint-author': {
    account: 'space',
    lifetimeMs: STANDING_LIFETIME_MS,
    summary: 'One instance of an endpoint: asks for its own timers and hears them fire.',
    lines: (c, a) => endpointAuthorLines(c.names, a.endpoint, a.instanceId, c.userKey),
  },
  'record-writer': {
    account: 'vault',
    lifetimeMs: STANDING_LIFETIME_MS,
    summary: 'Writes the checkpoint records of one endpoint.',
    lines: (c, a) => recordWriterLines(c.names, a.endpoint, c.userKey),
  },
  provisioner: {
    account: 'space',
    lifetimeMs: ONE_SHOT_LIFETIME_MS,
    summary: 'Makes the streams of the space account and the durables of members.',
    lines: (c) => provisionerLines(c.names, c.userKey),
  },
  'provisioner-vault': {
    account: 'vault',
    lifetimeMs: ONE_SHOT_LIFETIME_MS,
    summary: 'Makes the streams of the vault.',
    lines: (c) => provisionerVaultLines(c.names, c.userKey),
  },
  deprovisioner: {
    account: 'space',
    lifetimeMs: ONE_SHOT_LIFETIME_MS,
    summary: 'Takes away the durables and hand-overs of a retired member.',
    lines: (c) => deprovisionerLines(c.names, c.userKey),
  },
  manager: {
    account: 'space',
    lifetimeMs: STANDING_LIFETIME_MS,
    summary: 'The renewal process: tells the daemon to read its credentials again.',
    lines: (c) => managerLines(c.names, c.lifecycle, c.userKey),
  },
  'manager-vault': {
    account: 'vault',
    lifetimeMs: STANDING_LIFETIME_MS,
    summary: 'The renewal process in the vault: its own lease.',
    lines: (c) => managerVaultLines(c.names, c.userKey),
  },
  observer: {
    account: 'space',
    lifetimeMs: STANDING_LIFETIME_MS,
    summary: 'A display: presence, channels, lease, memberships; no content.',
    lines: (c) => observerLines(c.names, c.userKey),
  },
  'membership-observer': {
    account: 'system',
    lifetimeMs: SYSTEM_LIFETIME_MS,
    summary: 'Lists the connections of the space account.',
    lines: (c) => membershipObserverLines(c.spaceAccountKey, c.userKey),
  },
  'connection-evictor': {
    account: 'system',
    lifetimeMs: SYSTEM_LIFETIME_MS,
    summary: 'Ends connections.',
    lines: (c) => connectionEvictorLines(c.userKey),
  },
  'membership-rw': {
    account: 'space',
    lifetimeMs: STANDING_LIFETIME_MS,
    summary: 'Writes the display feed of memberships.',
    lines: (c) => membershipRwLines(c.names, c.userKey),
  },
  'claims-pusher': {
    account: 'system',
    lifetimeMs: ONE_SHOT_LIFETIME_MS,
    summary: 'Makes a revocation known to the broker.',
    lines: (c) => claimsPusherLines(c.userKey),
  },
};

export const PROFILE_NAMES = Object.keys(PROFILES) as readonly ProfileName[];

export function grantLines<P extends ProfileName>(
  profile: P,
  context: GrantContext,
  args: ProfileArguments[P],
): GrantLine[] {
  return PROFILES[profile].lines(context, args);
}

export interface PermissionLists {
  readonly pub: { readonly allow: string[]; readonly deny: string[] };
  readonly sub: { readonly allow: string[]; readonly deny: string[] };
}

/**
 * The lists of a token. A direction without any right is denied whole: an empty list would mean
 * that nothing is forbidden.
 */
export function permissionLists(lines: readonly GrantLine[]): PermissionLists {
  const of = (direction: 'pub' | 'sub') => {
    const pick = (effect: 'allow' | 'deny'): string[] => [
      ...new Set(
        lines
          .filter((l) => l.direction === direction && l.effect === effect)
          .map((l) => (l.queue === undefined ? l.subject : `${l.subject} ${l.queue}`)),
      ),
    ];
    const allow = pick('allow');
    return { allow, deny: allow.length === 0 ? ['>'] : pick('deny') };
  };
  return { pub: of('pub'), sub: of('sub') };
}
