import { setTimeout as sleep } from 'node:timers/promises';
import {
  identify,
  type PidRecord,
  readPidFile,
  removePidRecord,
  writePidRecord,
} from '@plane3/broker';
import { createFileLogger } from '@plane3/deliveryd';
import { Plane3Error } from '@plane3/protocol';
import { TrustStore } from '@plane3/space';
import type { Context } from './context.ts';
import { renewStanding } from './credentials.ts';

/** How often the credentials are looked at; wall-clock expiry decides, not the count of looks. */
const LOOK_MS = 15_000;

/**
 * The process that renews the space's standing credentials: signs each again, for the same key,
 * at three quarters of its life. It alone holds a path to the signing keys; the daemon has none.
 */
export async function runManager(ctx: Context, stop: AbortSignal): Promise<void> {
  const log = createFileLogger({ space: ctx.space, level: 'info', file: ctx.paths.managerLog });
  const record = await claimRecord(ctx);
  log.info({ event: 'manager.started', component: 'manager' }, 'renews the standing credentials');
  try {
    while (!stop.aborted) {
      try {
        const trust = new TrustStore(ctx.root).open(ctx.space);
        const { names, paths } = ctx;
        const renewed = await renewStanding({ trust, names, paths, nowMs: Date.now() });
        if (renewed.length > 0)
          log.info({ event: 'manager.renewed', component: 'manager', renewed }, 'renewed');
      } catch (e) {
        const code = e instanceof Plane3Error ? e.code : 'defect';
        log.error(
          { event: 'manager.renewal-failed', component: 'manager', code, detail: String(e) },
          'a renewal failed; it is tried again',
        );
      }
      await sleep(LOOK_MS, undefined, { signal: stop }).catch(() => {});
    }
    log.info({ event: 'manager.exit', component: 'manager', exit: 0 }, 'stopped by a signal');
  } finally {
    await removePidRecord(ctx.paths.managerPid, record);
  }
}

/** One manager a space; a record of a dead one is replaced. */
async function claimRecord(ctx: Context): Promise<PidRecord> {
  const found = await readPidFile(ctx.paths.managerPid);
  if (found.kind === 'record' && found.standing === 'proved-ours')
    throw new Plane3Error('already-exists', {
      detail: `the manager runs as process ${found.record.pid}`,
    });
  const self = await identify();
  if (self === undefined)
    throw new Plane3Error('not-ours', {
      detail: 'this system does not tell the identity of processes',
    });
  await writePidRecord(ctx.paths.managerPid, self);
  return self;
}
