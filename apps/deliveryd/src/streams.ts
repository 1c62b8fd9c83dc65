import { Plane3Error, type SpaceNames } from '@plane3/protocol';
import { type StreamRole, streamSpecs } from '@plane3/space';
import { requireWhole, verifyStreams } from '@plane3/space/nats';
import type { Connections } from './connections.ts';

/** What this daemon itself needs; timers have their own check, so that they never stop delivery. */
const NEEDED: Readonly<Record<'space' | 'vault', readonly StreamRole[]>> = {
  space: ['chat', 'dlv', 'presence', 'contracts'],
  vault: ['acl', 'channels', 'members', 'inbox', 'dead', 'lease', 'records', 'state'],
};

/** Every stream is there with the settings that peers and the promise rely on, or a refusal. */
export async function requireStreams(c: Connections, names: SpaceNames): Promise<void> {
  const specs = streamSpecs(names);
  for (const account of ['space', 'vault'] as const) {
    const own = specs.filter((s) => s.account === account && NEEDED[account].includes(s.role));
    const reports = await verifyStreams(account === 'space' ? c.space : c.vault, own);
    if (reports.kind === 'unknown')
      throw new Plane3Error('broker-unreachable', { detail: reports.cause });
    if (reports.kind === 'refused')
      throw new Plane3Error('permission-denied', { detail: reports.detail });
    requireWhole(reports.value.map((r) => (isChosenByOperator(r) ? { ...r, kind: 'same' } : r)));
  }
}

/** Lease time and replicas are the mesh's own choice; the lease package checks the first itself. */
function isChosenByOperator<R extends { kind: string }>(
  r: R & { differences?: readonly { field: string }[] },
): boolean {
  return (
    r.kind === 'mismatch' &&
    (r.differences ?? []).every((d) =>
      ['num_replicas', 'max_age', 'duplicate_window'].includes(d.field),
    )
  );
}
