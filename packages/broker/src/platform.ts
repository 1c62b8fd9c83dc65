import os from 'node:os';
import path from 'node:path';

export type Env = Readonly<Record<string, string | undefined>>;

const isWindows = process.platform === 'win32';

export const BROKER_FILE = isWindows ? 'nats-server.exe' : 'nats-server';
export const ARCHIVE_KIND: ArchiveKind = isWindows ? 'zip' : 'tar.gz';
export type ArchiveKind = 'zip' | 'tar.gz';

const OS: Readonly<Record<string, string>> = { win32: 'windows' };
const ARCH: Readonly<Record<string, string>> = { x64: 'amd64', arm: 'arm7', ia32: '386' };

/** As release archives are named, for example `linux-amd64`. */
export const RELEASE_PLATFORM = `${OS[process.platform] ?? process.platform}-${
  ARCH[process.arch] ?? process.arch
}`;
/** As npm packages are named, for example `linux-x64`. */
export const NPM_PLATFORM = `${process.platform}-${process.arch}`;

/** Where downloaded brokers are kept: `NATS_BROKER_CACHE`, else the user's cache folder. */
export function cacheRoot(env: Env): string {
  if (env['NATS_BROKER_CACHE']) return env['NATS_BROKER_CACHE'];
  const home = env['HOME'] ?? os.homedir();
  const base = isWindows
    ? (env['LOCALAPPDATA'] ?? path.join(home, 'AppData', 'Local'))
    : process.platform === 'darwin'
      ? path.join(home, 'Library', 'Caches')
      : (env['XDG_CACHE_HOME'] ?? path.join(home, '.cache'));
  return path.join(base, 'cotal', 'nats-server');
}

/** Folders that the PATH of a service or of a plain user often lacks. */
export const SYSTEM_FOLDERS: readonly string[] = isWindows
  ? []
  : ['/usr/local/bin', '/usr/bin', '/usr/sbin', '/usr/local/sbin', '/opt/homebrew/bin'];
