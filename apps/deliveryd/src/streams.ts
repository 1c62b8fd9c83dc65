import { Plane3Error, type SpaceNames } from '@plane3/protocol';
import { deliverySpecs, streamSpecs } from '@plane3/space';
import { requireWhole, verifyStreams } from '@plane3/space/nats';
import type { Connections } from './connections.ts';

/** Every stream is there with the settings that peers and the promise rely on, or a refusal. */
export async function requireStreams(c: Connections, names: SpaceNames): Promise<void> {
  const specs = streamSpecs(names);
  for (const account of ['space', 'vault'] as const) {
    const own = deliverySpecs(specs, account);
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
