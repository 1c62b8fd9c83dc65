import { readPidFile, removePidRecord, stopBroker, stopProcess } from '@plane3/broker';
import { Plane3Error } from '@plane3/protocol';
import type { MeshContext } from './context.ts';

/** The daemon takes copies back and releases its lease in this time, or is killed. */
const DAEMON_GRACE_MS = 6_000;
const MANAGER_GRACE_MS = 3_000;

type Part = 'stopped' | 'killed' | 'was-gone' | 'kept' | 'not-ours';

/** Daemon, manager, broker, each awaited; nothing is signalled that is not provably ours. */
export async function down(mesh: MeshContext, o: { readonly keepBroker: boolean }): Promise<void> {
  const daemon = await stopRecorded(mesh.paths.deliveryPid, DAEMON_GRACE_MS);
  const manager = await stopRecorded(mesh.paths.managerPid, MANAGER_GRACE_MS);
  let broker: Part = 'kept';
  if (mesh.record.broker === 'external') broker = 'not-ours';
  else if (!o.keepBroker) broker = await stopBroker(mesh.paths.brokerPid);
  mesh.out.data({ space: mesh.space, daemon, manager, broker }, () =>
    [`daemon   ${daemon}`, `manager  ${manager}`, `broker   ${broker}`].join('\n'),
  );
}

async function stopRecorded(file: string, graceMs: number): Promise<Part> {
  const found = await readPidFile(file);
  if (found.kind === 'absent') return 'was-gone';
  if (found.kind === 'unreadable')
    throw new Plane3Error('not-ours', {
      detail: found.detail,
      help: `look at it and remove ${file}`,
    });
  if (found.standing === 'unprovable')
    throw new Plane3Error('not-ours', {
      detail: `${file} names process ${found.record.pid}, which cannot be proved from here`,
      help: `stop it by hand, then remove ${file}`,
    });
  const stopped = await stopProcess(found.record, { graceMs });
  await removePidRecord(file, found.record);
  return stopped;
}
