import { randomUUID } from 'node:crypto';
import { link, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { Plane3Error } from '@plane3/protocol';
import writeFileAtomic from 'write-file-atomic';
import { identify, type ProcessIdentity, type Standing, stillRunning } from './identity.ts';

/**
 * A pid file that holds an identity, so that a stale one is recognised and no stranger is
 * signalled. One JSON object; further fields are the writer's own.
 */
export type PidRecord<T extends object = object> = ProcessIdentity & T;

export type PidFile<T extends object = object> =
  | { readonly kind: 'absent' }
  /** Something that we did not write, or half of it: it proves nothing about any process. */
  | { readonly kind: 'unreadable'; readonly detail: string }
  | { readonly kind: 'record'; readonly record: PidRecord<T>; readonly standing: Standing };

/** One atomic write, readable by the owner alone. */
export const writePidRecord = <T extends object>(
  file: string,
  record: PidRecord<T>,
): Promise<void> => writeFileAtomic(file, serialize(record), { mode: 0o600 });

/** Reads a record and proves at once whether its process runs. */
export async function readPidFile<T extends object = object>(file: string): Promise<PidFile<T>> {
  const text = await readText(file);
  if (text === undefined) return { kind: 'absent' };
  const record = parse(text);
  if (record === undefined) return { kind: 'unreadable', detail: `${file} is no pid record` };
  return { kind: 'record', record: record as PidRecord<T>, standing: await stillRunning(record) };
}

/** Removes the file only while it holds exactly this record. Answers whether it did. */
export async function removePidRecord<T extends object>(
  file: string,
  record: PidRecord<T>,
): Promise<boolean> {
  const wanted = serialize(record);
  if ((await readText(file)) !== wanted) return false;
  return takeAway(file, wanted);
}

/**
 * Held while one process starts something that must exist once. A lock whose holder is gone is
 * taken over; one whose holder runs, or cannot be proved dead, is a `conflict`.
 */
export async function takeStartLock(file: string): Promise<{ release(): Promise<void> }> {
  const self = await identify();
  if (self === undefined)
    throw new Plane3Error('not-ours', {
      detail: 'this system does not tell the identity of processes',
      help: 'run it on Linux or macOS',
    });
  const text = serialize({ ...self, nonce: randomUUID() });
  const draft = `${file}.${randomUUID()}`;
  await writeFile(draft, text, { mode: 0o600, flag: 'wx' });
  try {
    for (let attempt = 0; attempt < LOCK_ATTEMPTS_MAX; attempt++) {
      // A link is made with its content or not at all: nobody reads a half-written lock.
      if (await linked(draft, file)) return { release: () => takeAway(file, text).then(() => {}) };
      await clearStaleLock(file);
    }
  } finally {
    await rm(draft, { force: true });
  }
  throw new Plane3Error('conflict', { detail: `${file} changes hands all the time` });
}

const LOCK_ATTEMPTS_MAX = 5;

async function clearStaleLock(file: string): Promise<void> {
  const text = await readText(file);
  if (text === undefined) return;
  const holder = parse(text);
  const standing = holder === undefined ? 'unprovable' : await stillRunning(holder);
  if (standing === 'gone' || standing === 'other-process') {
    await takeAway(file, text);
    return;
  }
  const detail =
    holder === undefined
      ? `${file} is no lock of ours`
      : standing === 'proved-ours'
        ? `process ${holder.pid} is at it already`
        : `process ${holder.pid} of another host or container may be at it`;
  throw new Plane3Error('conflict', {
    detail,
    help: holder === undefined || standing === 'unprovable' ? `remove ${file}` : 'try again',
    context: { file, standing },
  });
}

/**
 * Removes a file of a known content. Moved aside first and looked at again, so that what another
 * process wrote in between is put back instead of lost.
 */
async function takeAway(file: string, wanted: string): Promise<boolean> {
  const aside = `${file}.${randomUUID()}`;
  try {
    await rename(file, aside);
  } catch (e) {
    if ((e as NodeJS.ErrnoException).code === 'ENOENT') return false;
    throw e;
  }
  const isWanted = (await readText(aside)) === wanted;
  if (!isWanted) await linked(aside, file);
  await rm(aside, { force: true });
  return isWanted;
}

async function linked(from: string, to: string): Promise<boolean> {
  try {
    await link(from, to);
    return true;
  } catch (e) {
    if ((e as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw e;
  }
}

async function readText(file: string): Promise<string | undefined> {
  try {
    return await readFile(file, 'utf8');
  } catch (e) {
    if ((e as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw e;
  }
}

const serialize = (record: object): string => `${JSON.stringify(record)}\n`;

function parse(text: string): ProcessIdentity | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (typeof value !== 'object' || value === null) return undefined;
  const r = value as Partial<Record<keyof ProcessIdentity, unknown>>;
  const isWhole =
    Number.isSafeInteger(r.pid) &&
    (r.pid as number) > 0 &&
    typeof r.boot === 'string' &&
    typeof r.start === 'string' &&
    typeof r.executable === 'string';
  return isWhole ? (value as ProcessIdentity) : undefined;
}
