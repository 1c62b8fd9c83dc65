import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import {
  isSpaceName,
  type Lifecycle,
  lifecycleKey,
  Plane3Error,
  spaceFileKey,
} from '@plane3/protocol';
import { z } from 'zod';
import { isErrno, readFileIfPresent, writePublicFile } from './files.ts';

/**
 * Where a space keeps its files under a root (wire contract section 7). `<key>` is the lowercase
 * hex of the space's name, so that two names that differ only in letter case, or that share a
 * routing token, never share a file.
 */
export const COTAL_FOLDER = '.cotal';

/** Credentials that stand in `space.<key>/`; the name is also the file's. */
export type StandingCredential =
  | 'delivery'
  | 'delivery-vault'
  | 'membership-observer'
  | 'connection-evictor'
  | 'membership-rw'
  | 'operator'
  | 'operator-vault'
  | 'manager'
  | 'manager-vault';

export interface SpacePaths {
  readonly root: string;
  readonly key: string;
  readonly meshRecord: string;
  /** 0700: the trust chain of every space of this root. */
  readonly authFolder: string;
  readonly trustFile: string;
  /** One file per revoked user key. */
  readonly revokedFolder: string;
  /** 0700: the credential files. */
  readonly credentialsFolder: string;
  readonly agentsFolder: string;
  readonly deliveryPid: string;
  readonly deliveryLog: string;
  readonly managerPid: string;
  readonly managerLog: string;
  readonly brokerFolder: string;
  readonly brokerConfig: string;
  readonly brokerPid: string;
  readonly brokerLog: string;
  /** Where the broker writes the ports it got. */
  readonly brokerPortsFolder: string;
  readonly jetStreamFolder: string;
  readonly resolverFolder: string;
  credential(name: StandingCredential): string;
  /** The uid is in the name: actors that differ only in letter case never share a file. */
  agentCredential(agent: Lifecycle): string;
}

/** @throws Plane3Error `settings-invalid` for what cannot be a space's name */
export function spacePaths(root: string, space: string): SpacePaths {
  if (!isSpaceName(space))
    throw new Plane3Error('settings-invalid', {
      detail: 'the space name is empty, longer than 64 characters, or has blanks at its ends',
      context: { space },
    });
  const key = spaceFileKey(space);
  const cotal = join(root, COTAL_FOLDER);
  const broker = join(cotal, `broker.${key}`);
  const credentials = join(cotal, `space.${key}`);
  const agents = join(credentials, 'agents');
  return {
    root,
    key,
    meshRecord: join(cotal, `mesh.${key}.json`),
    authFolder: join(cotal, 'auth'),
    trustFile: join(cotal, 'auth', `trust.${key}.json`),
    revokedFolder: join(cotal, 'auth', `revoked.${key}`),
    credentialsFolder: credentials,
    agentsFolder: agents,
    deliveryPid: join(cotal, `delivery.${key}.pid`),
    deliveryLog: join(cotal, `delivery.${key}.log`),
    managerPid: join(cotal, `manager.${key}.pid`),
    managerLog: join(cotal, `manager.${key}.log`),
    brokerFolder: broker,
    brokerConfig: join(broker, 'nats-server.conf'),
    brokerPid: join(cotal, `broker.${key}.pid`),
    brokerLog: join(cotal, `broker.${key}.log`),
    brokerPortsFolder: join(broker, 'ports'),
    jetStreamFolder: join(broker, 'store'),
    resolverFolder: join(broker, 'resolver'),
    credential: (name) => join(credentials, `${name}.creds`),
    agentCredential: (agent) => join(agents, `${lifecycleKey(agent)}.creds`),
  };
}

export const LEASE_TTL_MS_MIN = 2_000;
export const LEASE_TTL_MS_DEFAULT = 30_000;

const transportSchema = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('plain') }),
  z.strictObject({
    kind: z.literal('tls'),
    caFile: z.string().min(1).optional(),
    handshakeFirst: z.boolean().optional(),
    serverName: z.string().min(1).optional(),
  }),
]);

/** What every launch inherits: decided once, when the mesh is made. Unknown keys are refused. */
export const meshRecordSchema = z.strictObject({
  v: z.literal(1),
  space: z.string().refine(isSpaceName, { message: 'not a space name' }),
  mode: z.enum(['auth', 'open']),
  /** `nats://host:port`; the scheme decides nothing, `transport` does. */
  server: z.string().min(1),
  /** `own`: this root starts and stops the broker. `external`: it belongs to somebody else. */
  broker: z.enum(['own', 'external']),
  transport: transportSchema,
  ports: z.strictObject({ client: z.number().int().min(1).max(65_535) }),
  tls: z.strictObject({ certFile: z.string().min(1), keyFile: z.string().min(1) }).optional(),
  leaseTtlMs: z.number().int().min(LEASE_TTL_MS_MIN),
  replicas: z.number().int().min(1).max(5),
  sync: z.enum(['interval', 'always']),
  /** Milliseconds since the epoch. */
  created: z.number().int().nonnegative(),
});
export type MeshRecord = z.infer<typeof meshRecordSchema>;

/** @throws Plane3Error `settings-invalid` */
export function checkedMeshRecord(record: MeshRecord): MeshRecord {
  const parsed = meshRecordSchema.safeParse(record);
  if (parsed.success) return parsed.data;
  throw new Plane3Error('settings-invalid', { detail: z.prettifyError(parsed.error) });
}

/** @throws Plane3Error `settings-invalid`; nothing is written then */
export function writeMeshRecord(root: string, record: MeshRecord): void {
  const checked = checkedMeshRecord(record);
  const path = spacePaths(root, record.space).meshRecord;
  writePublicFile(path, `${JSON.stringify(checked, null, 2)}\n`);
}

/**
 * `undefined` if there is none: a missing record is a refusal for its reader, never plaintext.
 * @throws Plane3Error `settings-invalid` for one that is damaged or of another space
 */
export function readMeshRecord(root: string, space: string): MeshRecord | undefined {
  const path = spacePaths(root, space).meshRecord;
  const text = readFileIfPresent(path);
  if (text === undefined) return undefined;
  const record = parseMeshRecord(path, text);
  if (record.space !== space)
    throw new Plane3Error('settings-invalid', {
      detail: `${path} is the record of another space`,
      context: { path, space: record.space },
    });
  return record;
}

function parseMeshRecord(path: string, text: string): MeshRecord {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (cause) {
    throw new Plane3Error('settings-invalid', {
      detail: `${path} is not JSON`,
      help: `restore ${path}, or remove it and give cotal up the flags of this mesh again: streams and keys stay`,
      cause,
    });
  }
  const parsed = meshRecordSchema.safeParse(json);
  if (parsed.success) return parsed.data;
  throw new Plane3Error('settings-invalid', {
    detail: `${path}: ${z.prettifyError(parsed.error)}`,
    context: { path },
  });
}

/** Names of the spaces that have a record under `root`, in order. Damaged records throw. */
export function listMeshSpaces(root: string): string[] {
  const folder = join(root, COTAL_FOLDER);
  let names: string[];
  try {
    names = readdirSync(folder);
  } catch (e) {
    if (isErrno(e, 'ENOENT')) return [];
    throw new Plane3Error('settings-invalid', {
      detail: `${folder} cannot be read as a folder`,
      help: 'look at it, or choose another: --root DIR',
      cause: e,
    });
  }
  const records = names.filter((n) => /^mesh\.[0-9a-f]+\.json$/.test(n));
  return records
    .map((n) => join(folder, n))
    .map((path) => parseMeshRecord(path, readFileIfPresent(path) ?? '').space)
    .sort();
}
