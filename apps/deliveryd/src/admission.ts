import { credentialFacts } from '@plane3/link';
import { checkObserver, FileSecrets } from '@plane3/observer-check/nats';
import { Plane3Error } from '@plane3/protocol';
import type { Logger } from './log.ts';
import type { Mesh } from './mesh.ts';

/**
 * The `$SYS` pair, read from the very source that scans will use, before anything is built. An
 * absent evictor is accepted and shown.
 */
export async function admit(
  mesh: Mesh,
  log: Logger,
): Promise<{ readonly evictor: 'present' | 'absent' }> {
  const own = await credentialFacts(mesh.delivery());
  const verdict = await checkObserver({
    secrets: new FileSecrets(mesh.paths.credentialsFolder),
    daemonAccount: own.account,
    nowMs: Date.now(),
  });
  if (!verdict.ok)
    throw new Plane3Error(verdict.code, { detail: verdict.detail, help: verdict.help });
  log.info(
    { event: 'observer.admitted', component: 'observer', evictor: verdict.evictor },
    verdict.evictor === 'present' ? 'the pair is whole' : 'deny-new only, eviction not provisioned',
  );
  return { evictor: verdict.evictor };
}
