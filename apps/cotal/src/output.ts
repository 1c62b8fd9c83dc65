import { ERRORS, isPlane3Error, Plane3Error } from '@plane3/protocol';
import Table from 'cli-table3';
import pc from 'picocolors';

/**
 * The one way to the terminal: standard output is data, standard error is messages. With
 * `--json` data is one JSON value (or one a line, for streams of things) with snake_case keys.
 */
export interface OutputOptions {
  readonly json: boolean;
  readonly quiet: boolean;
}

export class Output {
  readonly #o: OutputOptions;

  constructor(o: OutputOptions) {
    this.#o = o;
  }

  get json(): boolean {
    return this.#o.json;
  }

  /** A message for the person at the terminal. */
  note(text: string): void {
    if (!this.#o.quiet) process.stderr.write(`${text}\n`);
  }

  warn(text: string): void {
    process.stderr.write(`${pc.yellow('warning:')} ${text}\n`);
  }

  /** The result of the verb: `value` with --json, else what `human` renders. */
  data(value: unknown, human: () => string): void {
    process.stdout.write(`${this.#o.json ? JSON.stringify(value) : human()}\n`);
  }

  /** One of a stream of results; the same line format for every consumer. */
  line(value: unknown, human: () => string): void {
    this.data(value, human);
  }
}

/** Column heads and rows; a row longer than the terminal wraps inside its cell. */
export function table(
  head: readonly string[],
  rows: readonly (readonly (string | number)[])[],
): string {
  const t = new Table({
    head: [...head],
    style: { head: [], border: [], compact: true },
    chars: {
      top: '',
      'top-mid': '',
      'top-left': '',
      'top-right': '',
      bottom: '',
      'bottom-mid': '',
      'bottom-left': '',
      'bottom-right': '',
      left: '',
      'left-mid': '',
      mid: '',
      'mid-mid': '',
      right: '',
      'right-mid': '',
      middle: '  ',
    },
  });
  for (const r of rows) t.push(r.map(String));
  return t.toString();
}

/** What happened, why, and the exact repair; then the exit code that the catalogue documents. */
export function reportFailure(error: unknown): number {
  const e = isPlane3Error(error) ? error : new Plane3Error('defect', { cause: error });
  process.stderr.write(`${pc.red('error:')} ${e.message} [${e.code}]\n`);
  if (e.code === 'defect' && error instanceof Error) process.stderr.write(`${error.stack}\n`);
  process.stderr.write(`${pc.bold('repair:')} ${e.help}\n`);
  return ERRORS[e.code].exitCode;
}

export function ago(ms: number): string {
  if (ms < 1_000) return `${Math.max(0, Math.round(ms))} ms`;
  const s = Math.round(ms / 1_000);
  if (s < 120) return `${s} s`;
  const m = Math.round(s / 60);
  return m < 120 ? `${m} min` : `${Math.round(m / 60)} h`;
}

/** What others wrote, for a terminal: control characters cannot move the cursor or change colours. */
export const printable = (text: string): string =>
  text.replace(/(?![\t\n])\p{Cc}/gu, (c) => `\\x${c.charCodeAt(0).toString(16).padStart(2, '0')}`);
