import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { makeDir, pauseProcess, runDir, track } from './children.ts';
import { Lines } from './lines.ts';

export interface ProgramOptions {
  /** All that the program gets beside PATH, HOME, NO_COLOR and the run folder. */
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
}

export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export interface Program {
  readonly pid: number;
  /** Lines of standard output and standard error, in order of arrival. */
  readonly lines: readonly string[];
  readonly stdout: string;
  readonly stderr: string;
  waitFor(pattern: RegExp, timeoutMs?: number): Promise<string>;
  signal(signal: NodeJS.Signals): void;
  sigkill(): Promise<void>;
  /** SIGSTOP (it stands when this returns) and SIGCONT. */
  pause(): void;
  resume(): void;
  /** Resolves after its last line was read. */
  exit(): Promise<Exit>;
}

/**
 * Runs a script by node itself, no shell, pnpm or npx between, so that the pid a test kills is the
 * program's.
 */
export function runProgram(
  entry: string,
  args: readonly string[] = [],
  o: ProgramOptions = {},
): Program {
  const { PATH, HOME } = process.env;
  const child = spawn(process.execPath, [entry, ...args], {
    env: { PATH, HOME, NO_COLOR: '1', PLANE3_RUN_DIR: runDir(), ...o.env },
    stdio: ['ignore', 'pipe', 'pipe'],
    ...(o.cwd === undefined ? {} : { cwd: o.cwd }),
  });
  track(child, makeDir('program'));
  const log = new Lines();
  const text = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const) {
    log.read(child[name]);
    child[name].on('data', (d: string) => {
      text[name] += d;
    });
  }
  const exit = (once(child, 'close') as Promise<[number | null, NodeJS.Signals | null]>).then(
    ([code, signal]): Exit => {
      log.close();
      return { code, signal };
    },
  );
  return {
    pid: child.pid ?? -1,
    lines: log.all,
    get stdout() {
      return text.stdout;
    },
    get stderr() {
      return text.stderr;
    },
    waitFor: (pattern, timeoutMs) => log.waitFor(pattern, timeoutMs),
    signal: (signal) => void child.kill(signal),
    sigkill: async () => {
      child.kill('SIGKILL');
      await exit;
    },
    pause: () => pauseProcess(child),
    resume: () => void child.kill('SIGCONT'),
    exit: () => exit,
  };
}

/** A program that is meant to stay. */
export const spawnDaemon = (
  entry: string,
  o: ProgramOptions & { readonly args?: readonly string[] } = {},
): Program => runProgram(entry, o.args, o);
