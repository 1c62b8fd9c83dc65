import { setTimeout as sleep } from 'node:timers/promises';
import { Plane3Error } from '@plane3/protocol';
import { type IdentityClaim, stillRunning } from './identity.ts';

/** A broker closes its stores and connections in this time, or is killed. */
export const STOP_GRACE_MS = 5_000;
/** After SIGKILL a process is gone within this, unless the kernel holds it. */
const KILL_WAIT_MS = 5_000;
const LOOK_EVERY_MS = 10;

export interface StopOptions {
  readonly graceMs?: number;
  readonly signal?: NodeJS.Signals;
}

/** `was-gone`: there was nothing to stop; also when its pid belongs to another process by now. */
export type Stopped = 'stopped' | 'killed' | 'was-gone';

/**
 * Ends the very process of a record: asks, waits at most `graceMs`, then kills. Idempotent. Each
 * signal follows a proof made just before it; without one it throws `not-ours` and signals
 * nobody. `timed-out` if the kernel does not let the process go.
 */
export async function stopProcess(claim: IdentityClaim, o: StopOptions = {}): Promise<Stopped> {
  if (!(await signalProved(claim, o.signal ?? 'SIGTERM'))) return 'was-gone';
  if (await waitGone(claim, o.graceMs ?? STOP_GRACE_MS)) return 'stopped';
  if (!(await signalProved(claim, 'SIGKILL'))) return 'stopped';
  if (await waitGone(claim, KILL_WAIT_MS)) return 'killed';
  throw new Plane3Error('timed-out', {
    detail: `process ${claim.pid} is still there ${KILL_WAIT_MS} ms after SIGKILL`,
    context: { pid: claim.pid },
  });
}

/** `false`: it does not run any more. */
async function signalProved(claim: IdentityClaim, signal: NodeJS.Signals): Promise<boolean> {
  const standing = await stillRunning(claim);
  if (standing === 'gone' || standing === 'other-process') return false;
  if (standing === 'unprovable')
    throw new Plane3Error('not-ours', {
      detail: `process ${claim.pid} cannot be proved from here`,
      context: { pid: claim.pid, boot: claim.boot },
    });
  try {
    process.kill(claim.pid, signal);
    return true;
  } catch (e) {
    const code = (e as NodeJS.ErrnoException).code;
    if (code === 'ESRCH') return false;
    throw new Plane3Error('not-ours', {
      detail: `process ${claim.pid} may not be signalled: ${code}`,
      context: { pid: claim.pid },
      cause: e,
    });
  }
}

async function waitGone(claim: IdentityClaim, waitMs: number): Promise<boolean> {
  const endMs = performance.now() + waitMs;
  for (;;) {
    const standing = await stillRunning(claim);
    if (standing === 'gone' || standing === 'other-process') return true;
    if (performance.now() >= endMs) return false;
    await sleep(LOOK_EVERY_MS);
  }
}
