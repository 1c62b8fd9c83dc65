import type { ChildProcess } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/**
 * Processes that tests started. They die with this process; what a killed run leaves behind is
 * found by the next run through the pid file in its run folder.
 */
const live = new Set<ChildProcess>();
process.once('exit', () => {
  for (const c of live) c.kill('SIGKILL');
});

/** Folder of this test run, made by the global set-up; ad hoc scripts get one of their own. */
export function runDir(): string {
  const dir = process.env['PLANE3_RUN_DIR'] ?? join(tmpdir(), `plane3-adhoc-${process.pid}`);
  mkdirSync(dir, { recursive: true });
  return dir;
}

/** A fresh folder inside the run folder, removed with it at the latest. */
export const makeDir = (prefix: string): string => mkdtempSync(join(runDir(), `${prefix}-`));

export function track(child: ChildProcess, dir: string): void {
  live.add(child);
  child.once('exit', () => live.delete(child));
  writeFileSync(join(dir, 'pid'), String(child.pid));
}

export const hasEnded = (c: ChildProcess): boolean => c.exitCode !== null || c.signalCode !== null;

export const ended = (c: ChildProcess): Promise<void> =>
  new Promise((ok) => {
    if (hasEnded(c) || c.pid === undefined) ok();
    else c.once('exit', () => ok());
  });

const STOP_MAX_MS = 5_000;

/**
 * SIGSTOP, and returns when every thread of it stands: until then it may still answer.
 * Where there is no /proc it returns at once.
 */
export function pauseProcess(child: ChildProcess): void {
  child.kill('SIGSTOP');
  const tasks = `/proc/${child.pid}/task`;
  const stands = (): boolean =>
    readdirSync(tasks).every((t) => / [TtZX] /.test(stateOf(`${tasks}/${t}/stat`)));
  if (!existsSync(tasks)) return;
  for (const end = Date.now() + STOP_MAX_MS; Date.now() < end; ) if (stands()) return;
}

/** `pid (name) state …`; the name may hold anything, so what follows it counts. */
function stateOf(file: string): string {
  try {
    const stat = readFileSync(file, 'utf8');
    return stat.slice(stat.lastIndexOf(')') + 1, stat.lastIndexOf(')') + 4);
  } catch {
    return ' X '; // the thread ended meanwhile
  }
}
