import { execFile } from 'node:child_process';
import { readFile, readlink } from 'node:fs/promises';
import os from 'node:os';
import { promisify } from 'node:util';

const run = promisify(execFile);
const PS_TIMEOUT_MS = 2_000;

/**
 * Which process this is, so that a pid that was given to another one is never taken for it. Pid,
 * boot and start are what a lease row keeps of its holder too (wire contract section 4).
 */
export interface ProcessIdentity {
  readonly pid: number;
  /** Boot of the machine, and the pid namespace inside it: pids mean something there only. */
  readonly boot: string;
  /** When the process started, in the words of the system: an opaque text to compare. */
  readonly start: string;
  /** Path of the program; empty if the system does not tell it. */
  readonly executable: string;
  /** Host name; tells an earlier boot of this host from another host. Absent in lease rows. */
  readonly host?: string;
}

/** What of an identity is needed to prove one; a lease row's `host` fits. */
export type IdentityClaim = Pick<ProcessIdentity, 'pid' | 'boot' | 'start'> &
  Partial<Pick<ProcessIdentity, 'executable' | 'host'>>;

/**
 * - `proved-ours`: the very process of the record is running.
 * - `gone`: it is not running any more, and no other process has its pid.
 * - `other-process`: it is not running any more; its pid belongs to another one. Hands off.
 * - `unprovable`: nobody can say from here (another host or container, or a silent system).
 */
export type Standing = 'proved-ours' | 'gone' | 'other-process' | 'unprovable';

type Look =
  | { readonly kind: 'running'; readonly start: string; readonly executable: string }
  | { readonly kind: 'absent' }
  | { readonly kind: 'silent' };

/** The identity of a running process; `undefined` if there is none or the system does not tell. */
export async function identify(pid: number = process.pid): Promise<ProcessIdentity | undefined> {
  const [look, boot] = await Promise.all([lookAt(pid), bootId()]);
  if (look.kind !== 'running' || boot === undefined) return undefined;
  return { pid, boot, start: look.start, executable: look.executable, host: os.hostname() };
}

/** Whether the process of a record still runs. Never guesses: see {@link Standing}. */
export async function stillRunning(claim: IdentityClaim): Promise<Standing> {
  const boot = await bootId();
  if (boot === undefined) return 'unprovable';
  if (boot !== claim.boot) return ofAnotherBoot(claim, boot);
  const look = await lookAt(claim.pid);
  if (look.kind === 'silent') return 'unprovable';
  if (look.kind === 'absent') return 'gone';
  if (look.start !== claim.start) return 'other-process';
  const wanted = claim.executable ?? '';
  const isOther = wanted !== '' && look.executable !== '' && wanted !== look.executable;
  return isOther ? 'other-process' : 'proved-ours';
}

/** A process does not outlive its boot, but another host or container has its own boot and pids. */
function ofAnotherBoot(claim: IdentityClaim, boot: string): Standing {
  const isSameBoot = machinePart(claim.boot) === machinePart(boot);
  const isSameHost = claim.host !== undefined && claim.host === os.hostname();
  return isSameHost && !isSameBoot ? 'gone' : 'unprovable';
}

const machinePart = (boot: string): string => boot.split('/')[0] ?? '';

let bootOnce: Promise<string | undefined> | undefined;

/** Constant while this process lives. */
function bootId(): Promise<string | undefined> {
  bootOnce ??= process.platform === 'linux' ? linuxBoot() : darwinBoot();
  return bootOnce;
}

async function linuxBoot(): Promise<string | undefined> {
  try {
    const id = (await readFile('/proc/sys/kernel/random/boot_id', 'utf8')).trim();
    const namespace = /\d+/.exec(await readlink('/proc/self/ns/pid'))?.[0];
    return namespace === undefined ? undefined : `${id}/${namespace}`;
  } catch {
    return undefined;
  }
}

async function darwinBoot(): Promise<string | undefined> {
  if (process.platform !== 'darwin') return undefined;
  try {
    const args = ['-n', 'kern.bootsessionuuid'];
    const { stdout } = await run('/usr/sbin/sysctl', args, { timeout: PS_TIMEOUT_MS });
    return stdout.trim() || undefined;
  } catch {
    return undefined;
  }
}

function lookAt(pid: number): Promise<Look> {
  if (!Number.isSafeInteger(pid) || pid <= 0) return Promise.resolve({ kind: 'absent' });
  if (process.platform === 'linux') return lookInProc(pid);
  if (process.platform === 'darwin') return lookWithPs(pid);
  return Promise.resolve({ kind: 'silent' });
}

/** The state is field 3 of /proc/<pid>/stat, the start time field 22, counted after the name. */
const STATE_AFTER_NAME = 0;
const START_AFTER_NAME = 19;

async function lookInProc(pid: number): Promise<Look> {
  let stat: string;
  try {
    stat = await readFile(`/proc/${pid}/stat`, 'utf8');
  } catch (e) {
    const code = (e as NodeJS.ErrnoException).code;
    return { kind: code === 'ENOENT' || code === 'ESRCH' ? 'absent' : 'silent' };
  }
  // The name may hold blanks and parentheses: the fields begin after the last one.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const state = fields[STATE_AFTER_NAME];
  const start = fields[START_AFTER_NAME];
  if (state === undefined || start === undefined) return { kind: 'silent' };
  // A zombie is dead; only its parent has not asked yet.
  if (state === 'Z' || state === 'X') return { kind: 'absent' };
  return { kind: 'running', start, executable: await executableOf(pid) };
}

/** A program replaced on disk is still that program: the kernel only marks its path. */
const executableOf = (pid: number): Promise<string> =>
  readlink(`/proc/${pid}/exe`).then(
    (path) => path.replace(/ \(deleted\)$/, ''),
    () => '',
  );

async function lookWithPs(pid: number): Promise<Look> {
  const ps = (column: string): Promise<string> =>
    run('/bin/ps', ['-o', `${column}=`, '-p', String(pid)], {
      timeout: PS_TIMEOUT_MS,
      env: { LC_ALL: 'C', TZ: 'UTC' },
    }).then(({ stdout }) => stdout.trim());
  try {
    const [state, start, executable] = await Promise.all([ps('stat'), ps('lstart'), ps('comm')]);
    if (start === '' || state.startsWith('Z')) return { kind: 'absent' };
    return { kind: 'running', start, executable };
  } catch (e) {
    // ps ends with 1 and says nothing if there is no such process.
    const { code, stderr } = e as { readonly code?: unknown; readonly stderr?: unknown };
    return { kind: code === 1 && stderr === '' ? 'absent' : 'silent' };
  }
}
