import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { findBroker, locateBroker, startBroker } from '@plane3/broker';
import { Plane3Error } from '@plane3/protocol';
import {
  checkedMeshRecord,
  LEASE_TTL_MS_DEFAULT,
  type MeshRecord,
  readMeshRecord,
  serverConfig,
  type Trust,
  writeMeshRecord,
} from '@plane3/space';
import type { Context } from './context.ts';

export interface UpFlags {
  readonly open?: boolean;
  readonly foreground?: boolean;
  readonly wait?: boolean;
  readonly port?: number;
  readonly leaseTtlMs?: number;
  readonly sync?: 'interval' | 'always';
  readonly tlsCert?: string;
  readonly tlsKey?: string;
  readonly tlsCa?: string;
  readonly replicas?: number;
  readonly server?: string;
  readonly acceptRecreated?: boolean;
}

const HOST = '127.0.0.1';

/**
 * What the mesh is: the record, or for a new mesh what the flags say. Flags that contradict a
 * record are refused: a mesh keeps its transport, mode and place.
 */
export function decideRecord(ctx: Context, flags: UpFlags): MeshRecord {
  const known = readMeshRecord(ctx.root, ctx.space);
  if (known !== undefined) return checkedMeshRecord(agreeing(ctx, known, flags));
  const port = flags.port ?? 0;
  // Checked before anything is started: a broker without a record is one that `down` cannot find.
  return checkedMeshRecord({
    v: 1,
    space: ctx.space,
    mode: flags.open === true ? 'open' : 'auth',
    server: flags.server ?? `nats://${HOST}:${port}`,
    broker: flags.server === undefined ? 'own' : 'external',
    transport: transportFlags(flags),
    ports: { client: port === 0 ? 1 : port }, // the real one is known once the broker listens
    ...(flags.tlsCert === undefined || flags.tlsKey === undefined
      ? {}
      : { tls: { certFile: path.resolve(flags.tlsCert), keyFile: path.resolve(flags.tlsKey) } }),
    leaseTtlMs: flags.leaseTtlMs ?? LEASE_TTL_MS_DEFAULT,
    replicas: flags.replicas ?? 1,
    sync: flags.sync ?? 'interval',
    created: Date.now(),
  });
}

function transportFlags(flags: UpFlags): MeshRecord['transport'] {
  const { tlsCert, tlsKey, tlsCa } = flags;
  if ((tlsCert === undefined) !== (tlsKey === undefined))
    throw new Plane3Error('usage', { detail: '--tls-cert and --tls-key go together' });
  for (const file of [tlsCert, tlsKey, tlsCa])
    if (file !== undefined && !existsSync(file))
      throw new Plane3Error('settings-invalid', { detail: `no such file: ${file}` });
  if (tlsCert === undefined && tlsCa === undefined) return { kind: 'plain' };
  return { kind: 'tls', ...(tlsCa === undefined ? {} : { caFile: path.resolve(tlsCa) }) };
}

function agreeing(ctx: Context, known: MeshRecord, flags: UpFlags): MeshRecord {
  const clash = (flag: string, have: unknown): never => {
    throw new Plane3Error('settings-invalid', {
      detail: `${flag} contradicts the record of this mesh, which says ${JSON.stringify(have)}`,
      help: `leave ${flag} away, or use another --space or --root (record: ${ctx.paths.meshRecord})`,
    });
  };
  if (flags.open === true && known.mode !== 'open') clash('--open', known.mode);
  if (flags.port !== undefined && flags.port !== known.ports.client)
    clash('--port', known.ports.client);
  if (flags.server !== undefined && flags.server !== known.server) clash('--server', known.server);
  if (flags.tlsCert !== undefined && path.resolve(flags.tlsCert) !== known.tls?.certFile)
    clash('--tls-cert', known.tls?.certFile ?? 'no TLS');
  if (flags.tlsCa !== undefined && known.transport.kind !== 'tls') clash('--tls-ca', 'no TLS');
  if (flags.replicas !== undefined && flags.replicas !== known.replicas)
    clash('--replicas', known.replicas);
  if (flags.sync !== undefined && flags.sync !== known.sync) clash('--sync', known.sync);
  return { ...known, leaseTtlMs: flags.leaseTtlMs ?? known.leaseTtlMs };
}

export interface BrokerStep {
  readonly record: MeshRecord;
  readonly started: boolean;
}

/** The broker of this mesh runs afterwards, on the recorded port; the record is written. */
export async function ensureBroker(
  ctx: Context,
  wanted: MeshRecord,
  trust: Trust | undefined,
): Promise<BrokerStep> {
  if (wanted.broker === 'external') {
    writeMeshRecord(ctx.root, wanted);
    return { record: wanted, started: false };
  }
  const isNew = readMeshRecord(ctx.root, ctx.space) === undefined;
  const found = await findBroker(ctx.paths.brokerPid);
  if (found.kind === 'running' && found.record.ready) {
    const record = located(wanted, found.record.port);
    writeMeshRecord(ctx.root, record);
    return { record, started: false };
  }
  const port = isNew && wanted.server.endsWith(':0') ? -1 : wanted.ports.client;
  mkdirSync(ctx.paths.jetStreamFolder, { recursive: true, mode: 0o700 });
  mkdirSync(ctx.paths.resolverFolder, { recursive: true, mode: 0o700 });
  const config = await serverConfig(ctx.paths, trust, {
    host: HOST,
    port,
    sync: wanted.sync,
    ...(wanted.tls === undefined ? {} : { tls: wanted.tls }),
  });
  writeFileSync(ctx.paths.brokerConfig, config, { mode: 0o600 });
  const binary = await locateBroker({ log: (line) => ctx.out.note(line) });
  const running = await startBroker({
    bin: binary.bin,
    configFile: ctx.paths.brokerConfig,
    recordFile: ctx.paths.brokerPid,
    output: { kind: 'detached', logFile: ctx.paths.brokerLog },
    listen: { host: HOST, port },
  });
  const record = located(wanted, running.record.port);
  writeMeshRecord(ctx.root, record);
  return { record, started: true };
}

const located = (record: MeshRecord, port: number): MeshRecord => ({
  ...record,
  server: `nats://${HOST}:${port}`,
  ports: { client: port },
});
