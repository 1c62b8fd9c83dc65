import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, mkdirSync, openSync } from 'node:fs';
import path from 'node:path';

/**
 * Starts another verb of this very program, detached: it outlives the terminal. What it writes to
 * standard error before its own log is open goes to `stderrFile`.
 */
export function spawnSelf(
  args: readonly string[],
  o: { readonly stderrFile: string; readonly attached?: boolean },
): ChildProcess {
  const main = process.argv[1];
  if (main === undefined) throw new TypeError('started without a script');
  mkdirSync(path.dirname(o.stderrFile), { recursive: true });
  const fd = openSync(o.stderrFile, 'a', 0o640);
  try {
    const child = spawn(process.execPath, [...process.execArgv, main, ...args], {
      detached: o.attached !== true,
      stdio: ['ignore', 'ignore', fd],
      cwd: path.parse(process.cwd()).root,
    });
    if (o.attached !== true) child.unref();
    return child;
  } finally {
    closeSync(fd);
  }
}
