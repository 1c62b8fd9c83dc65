import {
  directDurable,
  handOverDurable,
  handOverSubject,
  isActor,
  isOwner,
  type Lifecycle,
  Plane3Error,
  type Principal,
  principalId,
  rightsRowSchema,
  roleDurable,
  type SpaceNames,
} from '@plane3/protocol';
import { z } from 'zod';
import { enforceable } from './grants/patterns.ts';
import { AGENT_LIFETIME_MS } from './grants.ts';

/**
 * What this package keeps in a rights row beyond what the wire contract fixes. Readers of rights
 * ignore it.
 */
export const agentRowSchema = rightsRowSchema.extend({
  allowPublish: z.array(z.string()).default([]),
  role: z.string().optional(),
  /** When the lifecycle was minted: the newest answers to a name. */
  mintedAt: z.number().default(0),
  /** Keys of credentials that may still be valid, the current one last. */
  keys: z.array(z.strictObject({ key: z.string(), expiresAt: z.number() })).default([]),
});
export type AgentRow = z.infer<typeof agentRowSchema>;

export interface AgentRequest extends Principal {
  readonly read: readonly string[];
  readonly write: readonly string[];
  readonly role?: string;
  /** What mentions call it; default the actor. Kept in lower case. */
  readonly name?: string;
}

/** @throws Plane3Error `settings-invalid` before anything is written */
export function checkedRequest(request: AgentRequest): AgentRequest {
  if (!isOwner(request.owner) || !isActor(request.actor))
    throw new Plane3Error('settings-invalid', {
      detail: `not an agent name: ${principalId(request)}`,
      help: 'use letters, digits and _ (at most 64)',
    });
  return { ...request, read: enforceable(request.read), write: enforceable(request.write) };
}

export interface CredentialKey {
  readonly publicKey: string;
  readonly expiresAtMs: number;
}

export function firstRow(r: AgentRequest, key: CredentialKey, nowMs: number): AgentRow {
  return {
    name: (r.name ?? r.actor).toLowerCase(),
    allowSubscribe: [...r.read],
    issuedAllowSubscribe: [...r.read],
    allowPublish: [...r.write],
    ...(r.role === undefined ? {} : { role: r.role }),
    revision: 1,
    mintedAt: nowMs,
    updatedAt: nowMs,
    keys: [{ key: key.publicKey, expiresAt: key.expiresAtMs }],
  };
}

/** The key joins the older ones, which stay known until they are revoked or expired. */
export function changedRow(
  row: AgentRow,
  change: { readonly read?: readonly string[]; readonly write?: readonly string[] },
  key: CredentialKey,
  nowMs: number,
): AgentRow {
  const read = change.read ?? row.issuedAllowSubscribe;
  return {
    ...row,
    allowSubscribe: [...read],
    issuedAllowSubscribe: [...read],
    allowPublish: [...(change.write ?? row.allowPublish)],
    revision: row.revision + 1,
    updatedAt: nowMs,
    keys: [
      ...row.keys.filter((k) => k.expiresAt > nowMs && k.key !== key.publicKey),
      { key: key.publicKey, expiresAt: key.expiresAtMs },
    ],
  };
}

/** Retired refuses and disposes; the row stays as the tombstone of its lifecycle. */
export const retiredRow = (row: AgentRow, nowMs: number): AgentRow => ({
  ...row,
  allowSubscribe: [],
  issuedAllowSubscribe: [],
  allowPublish: [],
  revision: row.revision + 1,
  updatedAt: nowMs,
  retiredAt: nowMs,
});

/** Whether a repeated `add` asks for what is there already. */
export const sameRights = (row: AgentRow, r: AgentRequest): boolean =>
  sameSet(row.issuedAllowSubscribe, r.read) &&
  sameSet(row.allowPublish, r.write) &&
  row.role === r.role;

const sameSet = (a: readonly string[], b: readonly string[]): boolean =>
  a.length === b.length && a.every((x) => b.includes(x));

export const agentLifetimeMs = (lifetimeMs: number | undefined): number =>
  lifetimeMs ?? AGENT_LIFETIME_MS;

export const HAND_OVER_ACK_WAIT_MS = 60_000;
const NS_PER_MS = 1_000_000;
/** Pull requests that one durable keeps waiting. */
const WAITING_PULLS_MAX = 512;

/** A durable as the broker's configuration knows it. */
export interface DurableConfig {
  readonly durable_name: string;
  readonly filter_subject: string;
  readonly ack_policy: 'explicit';
  readonly ack_wait: number;
  readonly max_deliver: -1;
  readonly max_ack_pending: number;
  readonly max_waiting: number;
  readonly deliver_policy: 'all' | 'by_start_sequence';
  readonly opt_start_seq?: number;
  readonly replay_policy: 'instant';
}

const durable = (name: string, filter: string): DurableConfig => ({
  durable_name: name,
  filter_subject: filter,
  ack_policy: 'explicit',
  ack_wait: HAND_OVER_ACK_WAIT_MS * NS_PER_MS,
  max_deliver: -1,
  max_ack_pending: 1_000,
  max_waiting: WAITING_PULLS_MAX,
  deliver_policy: 'all',
  replay_policy: 'instant',
});

/**
 * The member's hand-over durable. From the first message on: its subject bears the lifecycle's
 * uid, so that nothing older can be there, and a repair makes exactly the same one again.
 */
export const handOverDurableConfig = (names: SpaceNames, member: Lifecycle): DurableConfig =>
  durable(handOverDurable(member), handOverSubject(names.prefix, member));

/** Direct messages to the principal from `frontier + 1` on: earlier ones were for earlier lives. */
export const directDurableConfig = (
  names: SpaceNames,
  member: Lifecycle,
  frontier: number,
): DurableConfig => ({
  ...durable(directDurable(member), `${names.prefix}.inst.${principalId(member)}.*.*`),
  deliver_policy: 'by_start_sequence',
  opt_start_seq: frontier + 1,
});

/** Shared by all agents of the role. */
export const roleDurableConfig = (names: SpaceNames, role: string): DurableConfig =>
  durable(roleDurable(role), `${names.prefix}.svc.${role}.*.*`);
