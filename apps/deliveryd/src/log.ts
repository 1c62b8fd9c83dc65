import { fstatSync, mkdirSync, statSync } from 'node:fs';
import path from 'node:path';
import { type DestinationStream, type Logger, pino } from 'pino';
import pretty from 'pino-pretty';

export type { Logger } from 'pino';

/** What never reaches a log line, wherever an object bears it. */
const SECRET_PATHS = ['creds', 'seed', 'jwt', '*.creds', '*.seed', '*.jwt', 'token', '*.token'];

/**
 * JSON lines on standard error. Every line bears `event` (a stable dotted name), `component` and
 * `space`; never content or secrets.
 */
export function createLogger(o: {
  readonly space: string;
  readonly level: string;
  readonly destination?: DestinationStream;
}): Logger {
  return pino(
    {
      level: o.level,
      base: { space: o.space, pid: process.pid },
      timestamp: pino.stdTimeFunctions.isoTime,
      redact: { paths: SECRET_PATHS, censor: '[redacted]' },
    },
    o.destination ?? pino.destination({ fd: 2, sync: true }),
  );
}

/**
 * To standard error, and appended to `file`, so that the reason of an end outlives the terminal.
 * Where standard error is that very file already (a detached start) each line is written once.
 */
export function createFileLogger(o: {
  readonly space: string;
  readonly level: string;
  readonly file: string;
}): Logger {
  mkdirSync(path.dirname(o.file), { recursive: true });
  const toFile = pino.destination({ dest: o.file, append: true, sync: true, mode: 0o640 });
  const destination = isStandardError(o.file)
    ? toFile
    : pino.multistream([
        { level: 'trace', stream: toFile },
        { level: 'trace', stream: terminal() },
      ]);
  return createLogger({ space: o.space, level: o.level, destination });
}

function isStandardError(file: string): boolean {
  try {
    const [a, b] = [fstatSync(2), statSync(file)];
    return a.ino === b.ino && a.dev === b.dev;
  } catch {
    return false;
  }
}

/** JSON lines, or something for people where a person reads it. */
const terminal = (): DestinationStream =>
  process.stderr.isTTY === true
    ? pretty({ destination: 2, sync: true, ignore: 'pid,space,component,level' })
    : pino.destination({ fd: 2, sync: true });
