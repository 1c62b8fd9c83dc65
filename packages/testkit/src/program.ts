import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';

const WAIT_MS = 15_000;
const live = new Set<ChildProcess>();
process.once('exit', () => {
  for (const c of live) c.kill('SIGKILL');
});

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
  signal(s: NodeJS.Signals): void;
  sigkill(): Promise<void>;
  exit(): Promise<Exit>;
}

/**
 * Runs a script by node itself, no shell, pnpm or npx between, so that the pid a test kills is the
 * program's. Only PATH and `env` reach it.
 */
export function runProgram(
  entry: string,
  args: readonly string[] = [],
  o: { readonly env?: Readonly<Record<string, string>>; readonly cwd?: string } = {},
): Program {
  const child = spawn(process.execPath, [entry, ...args], {
    env: { PATH: process.env['PATH'], HOME: process.env['HOME'], NO_COLOR: '1', ...o.env },
    ...(o.cwd === undefined ? {} : { cwd: o.cwd }),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  live.add(child);
  const lines: string[] = [];
  const text = { stdout: '', stderr: '' };
  const looks = new Set<() => void>();
  for (const name of ['stdout', 'stderr'] as const) {
    let rest = '';
    child[name].setEncoding('utf8').on('data', (d: string) => {
      text[name] += d;
      const parts = (rest + d).split('\n');
      rest = parts.pop() ?? '';
      lines.push(...parts);
      for (const f of looks) f();
    });
  }
  // `close`, not `exit`: the last lines have been read by then.
  const ended = (once(child, 'close') as Promise<[number | null, NodeJS.Signals | null]>).then(
    ([code, signal]) => {
      live.delete(child);
      for (const f of looks) f();
      return { code, signal };
    },
  );
  const over = (): boolean => child.exitCode !== null || child.signalCode !== null;
  return {
    get pid() {
      return child.pid ?? -1;
    },
    get stdout() {
      return text.stdout;
    },
    get stderr() {
      return text.stderr;
    },
    lines,
    exit: () => ended,
    signal: (s) => void child.kill(s),
    sigkill: async () => {
      child.kill('SIGKILL');
      await ended;
    },
    waitFor: (pattern, timeoutMs = WAIT_MS) =>
      new Promise((ok, no) => {
        let seen = 0;
        const end = (f: () => void): void => {
          looks.delete(look);
          clearTimeout(timer);
          f();
        };
        const look = (): void => {
          for (; seen < lines.length; seen++) {
            const line = lines[seen] ?? '';
            if (!pattern.test(line)) continue;
            end(() => ok(line));
            return;
          }
          if (over()) end(() => no(new Error(`ended before ${pattern}:\n${lines.join('\n')}`)));
        };
        const timer = setTimeout(
          () => end(() => no(new Error(`no line matched ${pattern}:\n${lines.join('\n')}`))),
          timeoutMs,
        );
        looks.add(look);
        look();
      }),
  };
}
