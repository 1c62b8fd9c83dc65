import { existsSync, readdirSync, rmSync } from 'node:fs';
import path from 'node:path';
import { Caller } from '@plane3/endpoint/nats';
import {
  isActor,
  isChannelPattern,
  Plane3Error,
  parseLifecycle,
  principalId,
} from '@plane3/protocol';
import { ensureSecretFolder, writeSecretFile } from '@plane3/space';
import { Agents, type IssuedAgent } from '@plane3/space/nats';
import { type MeshContext, openStanding, withAdmin } from './context.ts';
import { table } from './output.ts';
import { proved } from './up.ts';

const SETTLE_DEADLINE_MS = 5_000;
const LOCAL = 'local';

export interface AgentFlags {
  readonly read?: readonly string[];
  readonly write?: readonly string[];
  readonly role?: string;
  readonly name?: string;
}

const who = (actor: string): { owner: string; actor: string } => {
  if (!isActor(actor))
    throw new Plane3Error('usage', {
      detail: `not an agent name: ${actor}`,
      help: 'use letters, digits and _ (at most 64)',
    });
  return { owner: LOCAL, actor };
};

const requirePatterns = (f: AgentFlags): void => {
  for (const pattern of [...(f.read ?? []), ...(f.write ?? [])])
    if (!isChannelPattern(pattern))
      throw new Plane3Error('usage', {
        detail: `not a channel pattern: ${pattern}`,
        help: 'use dotted segments of letters, digits, - and _; * for one, > at the end for the rest',
      });
};

export async function addAgent(mesh: MeshContext, actor: string, f: AgentFlags): Promise<void> {
  requirePatterns(f);
  const issued = await withAdmin(mesh, async (links) =>
    proved(
      await new Agents(links).add({
        ...who(actor),
        read: f.read ?? [],
        write: f.write ?? [],
        ...(f.role === undefined ? {} : { role: f.role }),
        ...(f.name === undefined ? {} : { name: f.name }),
      }),
    ),
  );
  report(mesh, issued);
}

export async function renewAgent(mesh: MeshContext, actor: string): Promise<void> {
  report(mesh, await withAdmin(mesh, async (l) => proved(await new Agents(l).renew(who(actor)))));
}

/** Rights recorded, hand-overs taken back, old key revoked; then the daemon must have settled it. */
export async function setAgent(mesh: MeshContext, actor: string, f: AgentFlags): Promise<void> {
  requirePatterns(f);
  const issued = await withAdmin(mesh, async (links) =>
    proved(
      await new Agents(links).set(who(actor), {
        ...(f.read === undefined ? {} : { read: f.read }),
        ...(f.write === undefined ? {} : { write: f.write }),
      }),
    ),
  );
  writeCredential(mesh, issued);
  await confirmSettled(mesh, issued.revision);
  report(mesh, issued);
}

export async function retireAgent(mesh: MeshContext, actor: string): Promise<void> {
  const gone = await withAdmin(mesh, async (l) => proved(await new Agents(l).retire(who(actor))));
  const known = existsSync(mesh.paths.agentsFolder) ? readdirSync(mesh.paths.agentsFolder) : [];
  for (const file of known)
    if (parseLifecycle(path.basename(file, '.creds'))?.actor === actor)
      rmSync(path.join(mesh.paths.agentsFolder, file), { force: true });
  const revision = Math.max(0, ...gone.map((a) => a.revision));
  if (revision > 0) await confirmSettled(mesh, revision);
  const value = {
    principal: principalId(who(actor)),
    retired: gone.map((a) => a.lifecycle.uid),
  };
  mesh.out.data(value, () =>
    gone.length === 0
      ? `${actor}: nothing to retire`
      : `${actor}: retired ${value.retired.join(', ')}`,
  );
}

export async function listAgents(mesh: MeshContext): Promise<void> {
  const agents = await withAdmin(mesh, async (l) => proved(await new Agents(l).list()));
  const value = agents.map((a) => ({
    principal: principalId(a.lifecycle),
    uid: a.lifecycle.uid,
    name: a.row.name,
    read: a.row.allowSubscribe,
    issued_read: a.row.issuedAllowSubscribe,
    write: a.row.allowPublish,
    retired_at: a.row.retiredAt === undefined ? null : new Date(a.row.retiredAt).toISOString(),
  }));
  mesh.out.data(value, () =>
    table(
      ['principal', 'uid', 'read', 'write', 'state'],
      value.map((a) => [
        a.principal,
        a.uid,
        a.read.join(' '),
        a.write.join(' '),
        a.retired_at === null ? 'living' : 'retired',
      ]),
    ),
  );
}

/** Exit 3 without a daemon: the rights are recorded, but nobody confirmed that they are in force. */
async function confirmSettled(mesh: MeshContext, revision: number): Promise<void> {
  const { link, lifecycle } = await openStanding(mesh, 'operator');
  try {
    const caller = proved(
      await Caller.open({ link, prefix: mesh.names.prefix, caller: lifecycle }),
    );
    const args = { bucket: mesh.names.buckets.acl, revision };
    const answer = await caller.call('settled', args, { deadlineMs: SETTLE_DEADLINE_MS });
    caller.close();
    if (answer.ok) return;
    throw new Plane3Error('not-serving', {
      detail: `rights recorded, daemon not confirmed (${answer.code}: ${answer.message})`,
      help: 'start it, and it will follow the rights before it hands anything over: cotal up',
    });
  } finally {
    await link.close();
  }
}

function writeCredential(mesh: MeshContext, issued: IssuedAgent): string {
  ensureSecretFolder(mesh.paths.credentialsFolder);
  ensureSecretFolder(mesh.paths.agentsFolder);
  const file = mesh.paths.agentCredential(issued.lifecycle);
  writeSecretFile(file, issued.minted.creds);
  return file;
}

function report(mesh: MeshContext, issued: IssuedAgent): void {
  const creds = writeCredential(mesh, issued);
  const value = { principal: principalId(issued.lifecycle), uid: issued.lifecycle.uid, creds };
  mesh.out.data(value, () => `${value.principal}  uid ${value.uid}\ncredential ${creds}`);
}
