import { chmodSync, mkdirSync, readFileSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import writeFileAtomic from 'write-file-atomic';

/**
 * Files that hold secrets or that another process may read at any moment. A reader sees the old
 * bytes or the new ones, never a part; names reach the disk after their bytes.
 */
const SECRET_FILE_MODE = 0o600;
const SECRET_FOLDER_MODE = 0o700;

/** Creates the folder for its owner alone, and takes away what an older one granted others. */
export function ensureSecretFolder(path: string): void {
  mkdirSync(path, { recursive: true, mode: SECRET_FOLDER_MODE });
  if (isOpenToOthers(path)) chmodSync(path, SECRET_FOLDER_MODE);
}

/** 0600 in a 0700 folder, replaced at one instant. Throws what the file system says. */
export function writeSecretFile(path: string, data: string | Uint8Array): void {
  ensureSecretFolder(dirname(path));
  writeFileAtomic.sync(path, data, { mode: SECRET_FILE_MODE });
}

/** Without secrets, for anyone on the machine to read. */
export function writePublicFile(path: string, data: string): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileAtomic.sync(path, data, { mode: 0o644 });
}

/** `undefined` only for a file that is not there; every other failure is thrown. */
export function readFileIfPresent(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch (e) {
    if (isErrno(e, 'ENOENT')) return undefined;
    throw e;
  }
}

/** Whether anyone but the owner may read, write or enter it. */
export const isOpenToOthers = (path: string): boolean => (statSync(path).mode & 0o077) !== 0;

export const isErrno = (e: unknown, code: string): boolean =>
  e instanceof Error && 'code' in e && e.code === code;
