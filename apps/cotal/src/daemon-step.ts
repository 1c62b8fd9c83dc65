import type { ChildProcess } from 'node:child_process';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { readPidFile } from '@plane3/broker';
import type { StatusData } from '@plane3/endpoint';
import { Caller } from '@plane3/endpoint/nats';
import { ERRORS, type ErrorCode, Plane3Error } from '@plane3/protocol';
import { type MeshContext, openStanding } from './context.ts';
import { spawnSelf } from './spawn.ts';

/** A daemon that does not serve within this is reported as not serving. */
const SERVE_TIMEOUT_MS = 20_000;
const ASK_DEADLINE_MS = 1_000;
const ASK_EVERY_MS = 50;
/** A part that does not serve has this long to come back, from where an answer was first had. */
const DEGRADED_GRACE_MS = 8_000;
/** Waiting for a dead holder's lease: its TTL and this much more. */
const LEASE_SLACK_MS = 2_000;

interface DaemonPid {
  readonly incarnation: string;
  readonly space: string;
}

export interface Serving {
  readonly pid: number;
  readonly status: StatusData;
  readonly started: boolean;
}

/** Asks the daemon as an operator; `undefined`: nobody answered as the holder of the lease. */
export async function askStatus(mesh: MeshContext): Promise<StatusData | undefined> {
  const { link, lifecycle } = await openStanding(mesh, 'operator');
  try {
    const caller = await Caller.open({ link, prefix: mesh.names.prefix, caller: lifecycle });
    if (caller.kind !== 'done') return undefined;
    const answer = await caller.value.call('status', {}, { deadlineMs: ASK_DEADLINE_MS });
    caller.value.close();
    return answer.ok ? answer.data : undefined;
  } finally {
    await link.close();
  }
}

export type DaemonProcess =
  | { readonly kind: 'running'; readonly pid: number; readonly incarnation: string }
  | { readonly kind: 'none' }
  | { readonly kind: 'unprovable'; readonly detail: string };

export async function daemonProcess(mesh: MeshContext): Promise<DaemonProcess> {
  const file = await readPidFile<DaemonPid>(mesh.paths.deliveryPid);
  if (file.kind === 'absent') return { kind: 'none' };
  if (file.kind === 'unreadable') return { kind: 'unprovable', detail: file.detail };
  if (file.standing === 'unprovable')
    return { kind: 'unprovable', detail: `process ${file.record.pid} cannot be proved from here` };
  if (file.standing !== 'proved-ours') return { kind: 'none' };
  return { kind: 'running', pid: file.record.pid, incarnation: file.record.incarnation };
}

/**
 * Serving, and by the very daemon that was found or started: its incarnation answers as the
 * holder of the lease. Otherwise throws with that daemon's own reason.
 */
export async function ensureDaemon(
  mesh: MeshContext,
  o: { readonly wait: boolean; readonly acceptRecreated: boolean },
): Promise<Serving> {
  const untilMs = performance.now() + (o.wait ? mesh.record.leaseTtlMs + LEASE_SLACK_MS : 0);
  for (;;) {
    try {
      return await startOrFind(mesh, o.acceptRecreated);
    } catch (e) {
      const retry = e instanceof Plane3Error && e.code === 'lease-not-expired';
      if (!retry || performance.now() > untilMs) throw e;
      mesh.out.note('the lease of a dead daemon has not expired yet; waiting');
      await sleep(500);
    }
  }
}

async function startOrFind(mesh: MeshContext, acceptRecreated: boolean): Promise<Serving> {
  const found = await daemonProcess(mesh);
  if (found.kind === 'unprovable')
    throw new Plane3Error('not-ours', {
      detail: found.detail,
      help: `remove ${mesh.paths.deliveryPid}`,
    });
  if (found.kind === 'running') return awaitServing(mesh, found.pid, undefined, false);
  const logAt = sizeOf(mesh.paths.deliveryLog);
  const args = ['deliver', '--space', mesh.space, '--root', mesh.root];
  if (acceptRecreated) args.push('--on-recreated', 'restart');
  const child = spawnSelf(args, { stderrFile: mesh.paths.deliveryLog });
  return awaitServing(mesh, child.pid ?? -1, { child, logAt }, true);
}

interface Started {
  readonly child: ChildProcess;
  readonly logAt: number;
}

async function awaitServing(
  mesh: MeshContext,
  pid: number,
  started: Started | undefined,
  isNew: boolean,
): Promise<Serving> {
  const untilMs = performance.now() + SERVE_TIMEOUT_MS;
  let degradedAtMs: number | undefined;
  while (performance.now() < untilMs) {
    if (started !== undefined && started.child.exitCode !== null)
      throw exitReason(mesh, started.child.exitCode, started.logAt);
    if (started?.child.signalCode != null)
      throw new Plane3Error('not-serving', {
        detail: `the daemon ended by ${started.child.signalCode}`,
      });
    const own = await daemonProcess(mesh);
    if (own.kind === 'running' && own.pid === pid) {
      const status = await askStatus(mesh);
      if (status?.incarnation === own.incarnation && status.state !== 'starting') {
        degradedAtMs ??= performance.now();
        if (status.state === 'serving' || performance.now() - degradedAtMs > DEGRADED_GRACE_MS)
          return { pid, status, started: isNew };
      }
    } else if (started === undefined && own.kind === 'none')
      throw new Plane3Error('not-serving', { detail: `process ${pid} ended` });
    await sleep(ASK_EVERY_MS);
  }
  throw new Plane3Error('not-serving', {
    detail: `process ${pid} runs but did not answer as holder of the lease within ${SERVE_TIMEOUT_MS} ms`,
    help: `look at its log: ${mesh.paths.deliveryLog}`,
  });
}

const sizeOf = (file: string): number => (existsSync(file) ? statSync(file).size : 0);

interface ExitLine {
  readonly event?: string;
  readonly code?: string;
  readonly msg?: string;
}

/** The daemon's own last words in its log, as the error that it ended with. */
function exitReason(mesh: MeshContext, exitCode: number, logAt: number): Plane3Error {
  const file = mesh.paths.deliveryLog;
  const text = existsSync(file) ? readFileSync(file).subarray(logAt).toString('utf8') : '';
  for (const line of text.split('\n').reverse()) {
    let parsed: ExitLine;
    try {
      parsed = JSON.parse(line) as ExitLine;
    } catch {
      continue;
    }
    if (parsed.event !== 'daemon.exit' || parsed.code === undefined) continue;
    const code = parsed.code in ERRORS ? (parsed.code as ErrorCode) : 'not-serving';
    return new Plane3Error(code, { detail: `the daemon said: ${parsed.msg ?? ''} (log ${file})` });
  }
  return new Plane3Error('not-serving', {
    detail: `the daemon ended with exit code ${exitCode} and left no reason`,
    help: `look at ${file}`,
  });
}
