import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { makeDir, runDir, track } from './children.ts';
import { Lines } from './lines.ts';

export interface DaemonOptions {
  readonly args?: readonly string[];
  /** All that the process gets beside PATH and the run folder. */
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
}

export interface DaemonExit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export interface DaemonProc {
  readonly pid: number;
  /** Standard output and error, line by line. */
  readonly lines: readonly string[];
  waitFor(pattern: RegExp, timeoutMs?: number): Promise<string>;
  signal(signal: NodeJS.Signals): void;
  sigkill(): Promise<void>;
  /** SIGSTOP and SIGCONT. */
  pause(): void;
  resume(): void;
  /** Resolves after its last line was read. */
  exit(): Promise<DaemonExit>;
}

/** Spawns node itself, with no shell or package manager between: the pid is the daemon's own. */
export function spawnDaemon(entry: string, options: DaemonOptions = {}): DaemonProc {
  const child = spawn(process.execPath, [entry, ...(options.args ?? [])], {
    env: { PATH: process.env['PATH'], PLANE3_RUN_DIR: runDir(), ...options.env },
    stdio: ['ignore', 'pipe', 'pipe'],
    ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
  });
  track(child, makeDir('daemon'));
  const log = new Lines();
  log.read(child.stdout);
  log.read(child.stderr);
  const exit = (once(child, 'close') as Promise<[number | null, NodeJS.Signals | null]>).then(
    ([code, signal]): DaemonExit => {
      log.close();
      return { code, signal };
    },
  );
  return {
    pid: child.pid ?? -1,
    lines: log.all,
    waitFor: (pattern, timeoutMs) => log.waitFor(pattern, timeoutMs),
    signal: (signal) => void child.kill(signal),
    sigkill: async () => {
      child.kill('SIGKILL');
      await exit;
    },
    pause: () => void child.kill('SIGSTOP'),
    resume: () => void child.kill('SIGCONT'),
    exit: () => exit,
  };
}
