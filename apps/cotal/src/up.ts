import { mkdirSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { readPidFile, takeStartLock } from '@plane3/broker';
import { Link } from '@plane3/link';
import { ERRORS, type Outcome, Plane3Error } from '@plane3/protocol';
import { type MeshRecord, type StreamReport, streamSpecs, TrustStore } from '@plane3/space';
import { provisionStreams, requireWhole, writeDefaults } from '@plane3/space/nats';
import { decideRecord, ensureBroker, type UpFlags } from './broker-step.ts';
import {
  type Context,
  type MeshContext,
  openMeshContext,
  transportOf,
  withAdmin,
} from './context.ts';
import { renewStanding } from './credentials.ts';
import { ensureDaemon } from './daemon-step.ts';
import { down } from './down.ts';
import { spawnSelf } from './spawn.ts';

const MANAGER_TIMEOUT_MS = 10_000;

/**
 * Broker, manager, daemon, in this order; idempotent; relaunches only what is missing. Answers the
 * exit code: that of `not-serving` if the daemon answers and a part of it does not serve.
 */
export async function up(ctx: Context, flags: UpFlags): Promise<number> {
  makeFolder(path.dirname(ctx.paths.meshRecord));
  const lock = await takeStartLock(`${ctx.paths.meshRecord}.up.lock`);
  let serves = true;
  try {
    const wanted = decideRecord(ctx, flags);
    if (wanted.mode === 'open') await upOpen(ctx, wanted);
    else serves = await upAuthenticated(ctx, wanted, flags);
  } finally {
    await lock.release();
  }
  if (flags.foreground === true) await stay(openMeshContext(ctx));
  return serves ? 0 : ERRORS['not-serving'].exitCode;
}

function makeFolder(folder: string): void {
  try {
    mkdirSync(folder, { recursive: true });
  } catch (cause) {
    throw new Plane3Error('settings-invalid', {
      detail: `cannot make ${folder}: ${(cause as NodeJS.ErrnoException).code ?? ''}`,
      help: 'choose a folder that you may write: --root DIR',
      cause,
    });
  }
}

async function upOpen(ctx: Context, wanted: MeshRecord): Promise<void> {
  const { record, started } = await ensureBroker(ctx, wanted, undefined);
  const mesh = openMeshContext(ctx);
  const link = await Link.open({
    name: 'cotal provisioner',
    servers: [record.server],
    transport: transportOf(record),
  });
  try {
    const specs = streamSpecs(ctx.names, {
      replicas: record.replicas,
      leaseTtlMs: record.leaseTtlMs,
    });
    requireWhole(
      proved(
        await provisionStreams(
          link,
          specs.filter((s) => s.account === 'space'),
        ),
      ),
    );
    proved(await writeDefaults(link, ctx.names, 'live'));
  } finally {
    await link.close();
  }
  const value = { space: ctx.space, mode: 'open', broker: record.server, daemon: null };
  mesh.out.data(value, () =>
    [
      `broker  ${started ? 'started' : 'running'}  ${record.server}`,
      'open mode is live only: no delivery daemon, nothing is held for absent members',
    ].join('\n'),
  );
}

async function upAuthenticated(ctx: Context, wanted: MeshRecord, flags: UpFlags): Promise<boolean> {
  const trust = await new TrustStore(ctx.root).create(ctx.space);
  const broker = await ensureBroker(ctx, wanted, trust);
  const mesh = openMeshContext(ctx);
  await provision(mesh);
  await renewStanding({ trust, names: ctx.names, paths: ctx.paths, nowMs: Date.now() });
  const manager = await ensureManager(mesh);
  const daemon = await ensureDaemon(mesh, {
    wait: flags.wait === true,
    acceptRecreated: flags.acceptRecreated === true,
  });
  const value = {
    space: ctx.space,
    mode: 'auth',
    broker: { url: broker.record.server, started: broker.started },
    manager: { pid: manager.pid, started: manager.started },
    daemon: {
      state: daemon.status.state,
      pid: daemon.pid,
      incarnation: daemon.status.incarnation,
      started: daemon.started,
    },
  };
  const was = (started: boolean): string => (started ? 'started' : 'running');
  mesh.out.data(value, () =>
    [
      `broker   ${was(broker.started)}  ${broker.record.server}`,
      `manager  ${was(manager.started)}  pid ${manager.pid}`,
      `daemon   ${daemon.status.state}  pid ${daemon.pid}  incarnation ${daemon.status.incarnation}`,
    ].join('\n'),
  );
  const serves = daemon.status.state === 'serving';
  if (!serves) mesh.out.note(`not all serves: ${daemon.status.reason ?? ''}; look: cotal status`);
  return serves;
}

/** What a space consists of, made or repaired and read back. */
async function provision(mesh: MeshContext): Promise<void> {
  const { replicas, leaseTtlMs } = mesh.record;
  const specs = streamSpecs(mesh.names, { replicas, leaseTtlMs });
  await withAdmin(mesh, async (links) => {
    const reports: StreamReport[] = [];
    for (const [account, profile] of [
      ['space', 'provisioner'],
      ['vault', 'provisioner-vault'],
    ] as const) {
      const link = await links.get(profile);
      const own = specs.filter((s) => s.account === account);
      reports.push(...proved(await provisionStreams(link, own)));
    }
    requireWhole(reports);
    proved(await writeDefaults(await links.get('provisioner-vault'), mesh.names, 'durable'));
    for (const r of reports)
      if (r.kind === 'created' || r.kind === 'repaired') mesh.out.note(`${r.name}: ${r.kind}`);
  });
}

/** The value of an outcome, or its reason as the error of the act. */
export function proved<T>(o: Outcome<T>): T {
  if (o.kind === 'done') return o.value;
  if (o.kind === 'unknown') throw new Plane3Error('broker-unreachable', { detail: o.cause });
  if (o.reason === 'permission-denied')
    throw new Plane3Error('permission-denied', { detail: o.detail });
  if (o.reason === 'conflict') throw new Plane3Error('conflict', { detail: o.detail });
  if (o.reason === 'already-exists') throw new Plane3Error('already-exists', { detail: o.detail });
  if (o.reason === 'unknown-agent') throw new Plane3Error('agent-unknown', { detail: o.detail });
  if (o.reason === 'not-found') throw new Plane3Error('stream-missing', { detail: o.detail });
  throw new Plane3Error('failed-precondition', { detail: `${o.reason}: ${o.detail}` });
}

async function ensureManager(
  mesh: MeshContext,
): Promise<{ readonly pid: number; readonly started: boolean }> {
  const running = async (): Promise<number | undefined> => {
    const file = await readPidFile(mesh.paths.managerPid);
    return file.kind === 'record' && file.standing === 'proved-ours' ? file.record.pid : undefined;
  };
  const known = await running();
  if (known !== undefined) return { pid: known, started: false };
  const args = ['manager', '--space', mesh.space, '--root', mesh.root];
  const child = spawnSelf(args, { stderrFile: mesh.paths.managerLog });
  const untilMs = performance.now() + MANAGER_TIMEOUT_MS;
  while (performance.now() < untilMs) {
    const pid = await running();
    if (pid !== undefined) return { pid, started: true };
    if (child.exitCode !== null) break;
    await sleep(25);
  }
  throw new Plane3Error('not-serving', {
    detail: 'the manager ended before it was ready',
    help: `look at ${mesh.paths.managerLog}`,
  });
}

const WATCH_MS = 500;

/** Stays until a signal (then everything is stopped) or until the daemon ends (then fails). */
async function stay(mesh: MeshContext): Promise<void> {
  const stop = new AbortController();
  const handler = (): void => stop.abort();
  process.on('SIGINT', handler).on('SIGTERM', handler);
  try {
    while (!stop.signal.aborted) {
      await sleep(WATCH_MS, undefined, { signal: stop.signal }).catch(() => {});
      if (stop.signal.aborted || mesh.record.mode === 'open') continue;
      const daemon = await readPidFile(mesh.paths.deliveryPid);
      if (daemon.kind === 'record' && daemon.standing === 'proved-ours') continue;
      await down(mesh, { keepBroker: false });
      throw new Plane3Error('not-serving', {
        detail: 'the delivery daemon ended',
        help: `look at ${mesh.paths.deliveryLog}`,
      });
    }
    await down(mesh, { keepBroker: false });
  } finally {
    process.off('SIGINT', handler).off('SIGTERM', handler);
  }
}
