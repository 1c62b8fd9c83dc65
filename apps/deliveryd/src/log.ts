import { type DestinationStream, type Logger, pino } from 'pino';

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
