import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { runProgram } from '@plane3/testkit';

const MAIN = fileURLToPath(new URL('../bundle/main.js', import.meta.url));
const BROKER = process.env['PLANE3_TEST_NATS_BIN'] ?? '';

export interface Answer {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
  /** Standard output as one JSON value. */
  json<T = Record<string, unknown>>(): T;
  /** Standard output as JSON lines. */
  lines<T = Record<string, unknown>>(): T[];
}

/** A root of its own, with the built command line in front of it. */
export class Mesh {
  readonly root = mkdtempSync(path.join(process.env['PLANE3_RUN_DIR'] ?? tmpdir(), 'mesh-'));

  async run(...args: string[]): Promise<Answer> {
    const program = runProgram(MAIN, [...args, '--root', this.root], {
      env: { NATS_SERVER_BIN: BROKER },
      cwd: this.root,
    });
    const { code } = await program.exit();
    const { stdout, stderr } = program;
    const parse = <T>(text: string): T => {
      try {
        return JSON.parse(text) as T;
      } catch {
        throw new Error(`no JSON from ${args.join(' ')} (exit ${code}): ${text}\n${stderr}`);
      }
    };
    return {
      code,
      stdout,
      stderr,
      json: () => parse(stdout),
      lines: () =>
        stdout
          .split('\n')
          .filter((l) => l !== '')
          .map((l) => parse(l)),
    };
  }

  /** Runs with --json and fails the test unless it ends with 0. */
  async ok<T = Record<string, unknown>>(...args: string[]): Promise<T> {
    const a = await this.run(...args, '--json');
    if (a.code !== 0)
      throw new Error(`${args.join(' ')} ended with ${a.code}:\n${a.stderr}\n${a.stdout}`);
    return a.json<T>();
  }

  async mail(name: string, ...flags: string[]): Promise<{ text: string; redelivered: boolean }[]> {
    const a = await this.run('inbox', '--as', name, '--json', ...flags);
    if (a.code !== 0) throw new Error(`inbox of ${name} ended with ${a.code}:\n${a.stderr}`);
    return a.lines();
  }

  start(...args: string[]) {
    return runProgram(MAIN, [...args, '--root', this.root], {
      env: { NATS_SERVER_BIN: BROKER },
      cwd: this.root,
    });
  }

  async end(): Promise<void> {
    await this.run('down');
    rmSync(this.root, { recursive: true, force: true, maxRetries: 5 });
  }
}
