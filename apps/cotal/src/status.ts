import { findBroker, readPidFile, versionOf } from '@plane3/broker';
import type { StatusData, StatusPart } from '@plane3/endpoint';
import { ERRORS, isPlane3Error } from '@plane3/protocol';
import type { MeshContext } from './context.ts';
import { credentialState, STANDING } from './credentials.ts';
import { askStatus, daemonProcess } from './daemon-step.ts';
import { ago, table } from './output.ts';

type Light = 'serving' | 'degraded' | 'down' | 'unknown';

interface PartReport {
  readonly state: string;
  readonly since: string | null;
  readonly reason: string | null;
}

/** Per part: serving, degraded, down, unknown, since when and why; 0 only when all is well. */
export async function status(mesh: MeshContext): Promise<number> {
  const asOf = Date.now();
  const [broker, manager, process, answer, credentials] = await Promise.all([
    brokerPart(mesh),
    managerPart(mesh),
    daemonProcess(mesh),
    daemonAnswer(mesh),
    credentialsPart(mesh, asOf),
  ]);
  const daemon = daemonPart(mesh, process, answer);
  const states = [broker.state, daemon.state];
  if (mesh.record.mode === 'auth') states.push(manager.state, credentials.state);
  const value = {
    space: mesh.space,
    state: overall(states),
    mode: mesh.record.mode,
    daemon,
    broker,
    manager,
    parts: { ...partsOf(mesh, answer.data), credentials },
    as_of: new Date(asOf).toISOString(),
  };
  mesh.out.data(value, () => render(value, asOf));
  return value.state === 'serving' ? 0 : ERRORS['not-serving'].exitCode;
}

const overall = (states: readonly string[]): Light =>
  states.includes('down')
    ? 'down'
    : states.some((s) => s === 'degraded' || s === 'expired')
      ? 'degraded'
      : states.includes('unknown')
        ? 'unknown'
        : 'serving';

interface Answer {
  readonly data: StatusData | undefined;
  readonly failure: string | undefined;
}

async function daemonAnswer(mesh: MeshContext): Promise<Answer> {
  if (mesh.record.mode === 'open') return { data: undefined, failure: undefined };
  try {
    const data = await askStatus(mesh);
    return {
      data,
      failure: data === undefined ? 'nobody answers as holder of the lease' : undefined,
    };
  } catch (e) {
    return { data: undefined, failure: isPlane3Error(e) ? `${e.code}: ${e.message}` : String(e) };
  }
}

function daemonPart(
  mesh: MeshContext,
  process: Awaited<ReturnType<typeof daemonProcess>>,
  { data, failure }: Answer,
) {
  const pid = process.kind === 'running' ? process.pid : (data?.pid ?? null);
  if (mesh.record.mode === 'open')
    return {
      state: 'serving',
      reason: 'open mode is live only: no daemon',
      incarnation: null,
      pid,
      since: null,
      lease: null,
    };
  if (data === undefined)
    return {
      state: 'down',
      reason:
        process.kind === 'running' ? `alive, not serving (${failure})` : (failure ?? 'not running'),
      incarnation: process.kind === 'running' ? process.incarnation : null,
      pid,
      since: null,
      lease: null,
    };
  return {
    state: data.state,
    reason: data.reason ?? null,
    incarnation: data.incarnation,
    pid,
    since: new Date(data.since).toISOString(),
    lease: { holder: data.lease.holder, age_ms: Math.round(data.lease.ageMs) },
  };
}

async function brokerPart(mesh: MeshContext) {
  const url = mesh.record.server;
  if (mesh.record.broker === 'external')
    return { state: 'serving', url, version: null, pid: null, reason: 'not ours' };
  const found = await findBroker(mesh.paths.brokerPid);
  if (found.kind === 'running')
    return {
      state: 'serving',
      url,
      version: await brokerVersion(found.record.bin),
      pid: found.record.pid,
      reason: null,
    };
  const reason = found.kind === 'unprovable' ? found.detail : 'not running';
  return {
    state: found.kind === 'unprovable' ? 'unknown' : 'down',
    url,
    version: null,
    pid: null,
    reason,
  };
}

/** As the binary tells it; `null` when it cannot be asked any more. */
async function brokerVersion(bin: string): Promise<string | null> {
  try {
    return (await versionOf(bin)).replace(/^v/, '');
  } catch {
    return null;
  }
}

async function managerPart(mesh: MeshContext): Promise<PartReport & { pid: number | null }> {
  if (mesh.record.mode === 'open')
    return { state: 'serving', since: null, reason: 'open mode', pid: null };
  const file = await readPidFile(mesh.paths.managerPid);
  const isUp = file.kind === 'record' && file.standing === 'proved-ours';
  return {
    state: isUp ? 'serving' : 'down',
    since: null,
    reason: isUp ? null : 'not running: credentials are not renewed',
    pid: isUp ? file.record.pid : null,
  };
}

async function credentialsPart(mesh: MeshContext, nowMs: number): Promise<PartReport> {
  if (mesh.record.mode === 'open') return { state: 'serving', since: null, reason: 'open mode' };
  const all = await Promise.all(STANDING.map((n) => credentialState(mesh.paths, n, nowMs)));
  const bad = all.filter((c) => c.state !== 'fresh' && c.state !== 'due');
  if (bad.length === 0) return { state: 'serving', since: null, reason: null };
  const reason = bad.map((c) => `${c.name} ${c.state}`).join(', ');
  return { state: 'degraded', since: null, reason };
}

const PARTS = ['fan_out', 'reader', 'registry', 'schedule_writer', 'observer'] as const;

function partsOf(mesh: MeshContext, data: StatusData | undefined): Record<string, unknown> {
  const why = mesh.record.mode === 'open' ? 'open mode' : 'the daemon did not answer';
  return Object.fromEntries(
    PARTS.map((name) => {
      const part: StatusPart | undefined = data?.parts[name];
      return [
        name,
        part === undefined
          ? { state: 'unknown', since: null, reason: why }
          : {
              state: part.state,
              since: new Date(part.since).toISOString(),
              reason: part.reason ?? null,
              ...(part.counters === undefined ? {} : { counters: part.counters }),
              ...(part.facts === undefined ? {} : { facts: part.facts }),
            },
      ];
    }),
  );
}

function render(
  value: {
    state: string;
    space: string;
    daemon: { state: string; reason: string | null; since: string | null };
    broker: { state: string; url: string; reason: string | null };
    manager: PartReport;
    parts: Record<string, unknown>;
  },
  asOfMs: number,
): string {
  const row = (
    name: string,
    p: { state: string; since?: string | null; reason?: string | null },
  ) => [
    name,
    p.state,
    p.since == null ? '' : `since ${ago(asOfMs - Date.parse(p.since))}`,
    p.reason ?? '',
  ];
  const rows = [
    row('broker', { ...value.broker, reason: value.broker.reason ?? value.broker.url }),
    row('manager', value.manager),
    row('daemon', value.daemon),
    ...Object.entries(value.parts).map(([n, p]) => row(`  ${n}`, p as PartReport)),
  ];
  return `space ${value.space}: ${value.state}\n${table(['part', 'state', 'since', 'reason'], rows)}`;
}
