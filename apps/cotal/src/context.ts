import { existsSync, readdirSync, statSync } from 'node:fs';
import path from 'node:path';
import { fileCredential } from '@plane3/deliveryd';
import { type CredentialSource, credentialFacts, Link, type Transport } from '@plane3/link';
import {
  type Lifecycle,
  Plane3Error,
  parseLifecycle,
  type SpaceNames,
  spaceNames,
} from '@plane3/protocol';
import {
  COTAL_FOLDER,
  listMeshSpaces,
  type MeshRecord,
  readMeshRecord,
  type SpacePaths,
  type StandingCredential,
  spacePaths,
  TrustStore,
} from '@plane3/space';
import { AdminLinks } from '@plane3/space/nats';
import type { Output } from './output.ts';

const DEFAULT_SPACE = 'main';

/** Which root, space and mesh a verb works on. */
export interface Context {
  readonly root: string;
  readonly space: string;
  readonly paths: SpacePaths;
  readonly names: SpaceNames;
  readonly out: Output;
}

export interface MeshContext extends Context {
  readonly record: MeshRecord;
  readonly servers: readonly string[];
  readonly transport: Transport;
}

/** The nearest folder at or above `from` that holds `.cotal`, else `from` itself. */
function findRoot(from: string): string {
  for (let dir = path.resolve(from); ; dir = path.dirname(dir)) {
    if (existsSync(path.join(dir, COTAL_FOLDER))) return dir;
    if (path.dirname(dir) === dir) return path.resolve(from);
  }
}

/** The only recorded space, or the default one; several must be told apart by the caller. */
function chooseSpace(root: string): string {
  const known = listMeshSpaces(root);
  if (known.length > 1)
    throw new Plane3Error('usage', {
      detail: `${root} has several spaces: ${known.join(', ')}`,
      help: 'add --space NAME',
    });
  return known[0] ?? DEFAULT_SPACE;
}

export function openContext(
  o: { readonly root?: string | undefined; readonly space?: string | undefined },
  out: Output,
): Context {
  const root = o.root === undefined ? findRoot(process.cwd()) : path.resolve(o.root);
  const space = o.space ?? chooseSpace(root);
  return { root, space, paths: spacePaths(root, space), names: spaceNames(space), out };
}

/** Says on standard error what it resolved; refuses where no mesh was made. */
export function openMeshContext(ctx: Context): MeshContext {
  const record = readMeshRecord(ctx.root, ctx.space);
  if (record === undefined)
    throw new Plane3Error('space-unknown', {
      detail: `no mesh of space ${ctx.space} in ${ctx.root}`,
      help: `create it: cotal up --space ${ctx.space} --root ${ctx.root}`,
    });
  ctx.out.note(`root ${ctx.root}, space ${ctx.space}, broker ${record.server}`);
  return { ...ctx, record, servers: [record.server], transport: transportOf(record) };
}

export function transportOf(record: MeshRecord): Transport {
  if (record.transport.kind === 'plain') return { kind: 'plain' };
  const { caFile, handshakeFirst, serverName } = record.transport;
  return {
    kind: 'tls',
    ...(caFile === undefined ? {} : { caFile }),
    ...(handshakeFirst === undefined ? {} : { handshakeFirst }),
    ...(serverName === undefined ? {} : { serverName }),
  };
}

/** Runs one administrative act under credentials that are minted for it and never written down. */
export async function withAdmin<T>(
  mesh: MeshContext,
  act: (links: AdminLinks) => Promise<T>,
): Promise<T> {
  requireAuth(mesh, 'administration');
  const trust = new TrustStore(mesh.root).open(mesh.space);
  const { names, servers, transport } = mesh;
  const links = new AdminLinks({ trust, names, servers, transport });
  try {
    return await act(links);
  } finally {
    await links.close();
  }
}

export function requireAuth(mesh: MeshContext, what: string): void {
  if (mesh.record.mode === 'open')
    throw new Plane3Error('failed-precondition', {
      detail: `${what} needs an authenticated mesh; space ${mesh.space} is in open mode`,
      help: 'make an authenticated one: cotal up --space NAME',
    });
}

export interface Identity {
  readonly lifecycle: Lifecycle;
  readonly credentials: CredentialSource;
}

/** Lifecycle that a credential was minted for, by its tags. */
export async function identityOf(file: string): Promise<Identity> {
  const credentials = fileCredential(file);
  let facts: Awaited<ReturnType<typeof credentialFacts>>;
  const bytes = credentials();
  try {
    facts = await credentialFacts(bytes);
  } catch (cause) {
    throw new Plane3Error('credential-unreadable', { detail: file, cause });
  }
  const tag = (name: string): string =>
    facts.tags.find((t) => t.startsWith(`${name}:`))?.slice(name.length + 1) ?? '';
  const lifecycle = parseLifecycle(
    `${tag('owner')}.${originalActor(file, tag('actor'))}.${tag('uid')}`,
  );
  if (lifecycle === undefined)
    throw new Plane3Error('credential-unreadable', { detail: `${file} names no lifecycle` });
  return { lifecycle, credentials };
}

/** Tags are kept in lower case by the token library; the file's name has the actor as it is. */
function originalActor(file: string, tagged: string): string {
  const named = parseLifecycle(path.basename(file, '.creds'))?.actor;
  return named !== undefined && named.toLowerCase() === tagged.toLowerCase() ? named : tagged;
}

export async function openStanding(
  mesh: MeshContext,
  name: StandingCredential,
): Promise<{ readonly link: Link; readonly lifecycle: Lifecycle }> {
  const { lifecycle, credentials } = await identityOf(mesh.paths.credential(name));
  const { servers, transport } = mesh;
  const link = await Link.open({ name: `cotal ${name}`, servers, transport, credentials });
  return { link, lifecycle };
}

/** The credential file of an agent of this root; of several lifecycles the one written last. */
export function agentFile(mesh: MeshContext, name: string): string {
  const { agentsFolder } = mesh.paths;
  const files = existsSync(agentsFolder) ? readdirSync(agentsFolder) : [];
  const writtenMs = (f: string): number => statSync(path.join(agentsFolder, f)).mtimeMs;
  const found = files
    .filter((f) => parseLifecycle(path.basename(f, '.creds'))?.actor === name)
    .sort((a, b) => writtenMs(a) - writtenMs(b));
  const file = found.at(-1);
  if (file === undefined)
    throw new Plane3Error('agent-unknown', {
      detail: `no credential of ${name} in ${agentsFolder}`,
      help: `add it: cotal agent add ${name} --read CH --write CH --space ${mesh.space} --root ${mesh.root}`,
    });
  return path.join(agentsFolder, file);
}
