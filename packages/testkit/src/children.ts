import type { ChildProcess } from 'node:child_process';
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
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
