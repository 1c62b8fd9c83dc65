import { createHash, randomUUID } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, open, readFile, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import writeFileAtomic from 'write-file-atomic';
import { BROKER_FILE, cacheRoot, type Env, RELEASE_PLATFORM } from './platform.ts';
import { versionOf } from './version.ts';

/** One folder per version and platform: two sources never overwrite each other's binary. */
export const cacheFolder = (env: Env, version: string): string =>
  path.join(cacheRoot(env), `v${version}`, RELEASE_PLATFORM);

export const cachedBroker = (folder: string): string => path.join(folder, BROKER_FILE);

const recordOf = (folder: string): string => path.join(folder, 'install.json');

export function digestOfFile(
  file: string,
  algorithm: 'sha256' | 'sha512',
  encoding: 'hex' | 'base64',
): Promise<string> {
  return new Promise((ok, no) => {
    const hash = createHash(algorithm);
    createReadStream(file)
      .on('data', (chunk) => hash.update(chunk))
      .on('error', no)
      .on('end', () => ok(hash.digest(encoding)));
  });
}

/** Whether the cached binary still is what was installed; hashed at each start (18 MB: 20 ms). */
export async function matchesRecord(folder: string): Promise<boolean> {
  let want: unknown;
  try {
    want = (JSON.parse(await readFile(recordOf(folder), 'utf8')) as { sha256?: unknown }).sha256;
  } catch {
    return false;
  }
  return want === (await digestOfFile(cachedBroker(folder), 'sha256', 'hex'));
}

/**
 * Puts a verified binary into the cache, atomically: of two racing processes the last rename wins,
 * with equal bytes. It must run on this machine before it gets its name.
 */
export async function install(folder: string, bytes: Buffer, from: string): Promise<string> {
  await mkdir(folder, { recursive: true });
  const draft = path.join(folder, `.${randomUUID()}-${BROKER_FILE}`);
  try {
    const handle = await open(draft, 'wx', 0o755);
    try {
      await handle.writeFile(bytes);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await versionOf(draft);
    const sha256 = createHash('sha256').update(bytes).digest('hex');
    const record = { sha256, from, at: new Date().toISOString() };
    await writeFileAtomic(recordOf(folder), `${JSON.stringify(record)}\n`);
    await rename(draft, cachedBroker(folder));
  } finally {
    await rm(draft, { force: true });
  }
  return cachedBroker(folder);
}
