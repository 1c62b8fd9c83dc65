import { ERRORS, isPlane3Error, Plane3Error } from '@plane3/protocol';
import { spacePaths } from '@plane3/space';
import { Command, CommanderError } from 'commander';
import { startDelivery } from './delivery.ts';
import { createFileLogger, type Logger } from './log.ts';
import { ProcessRecord } from './process-record.ts';
import { resolveSettings, type Settings, type SettingsInput } from './settings.ts';

/** After the first signal the daemon has this long; then it goes without asking further. */
const SHUTDOWN_MAX_MS = 5_000;

function parse(argv: readonly string[]): { flags: SettingsInput; file: string | undefined } {
  const c = new Command('deliveryd')
    .description('The delivery daemon of a space, in the foreground.')
    .option('--space <name>', 'the space to serve')
    .option('--server <url>', 'broker address (default: the mesh record)')
    .option('--tls', 'demand TLS')
    .option('--tls-ca <file>', 'demand TLS, with this CA')
    .option('--creds <file>', 'credential for the space account')
    .option('--vault-creds <file>', 'credential for the vault account')
    .option('--root <dir>', 'folder that holds .cotal', process.cwd())
    .option('--shard <i>', 'which shard', '0')
    .option('--shards <n>', 'how many there are', '1')
    .option('--on-recreated <what>', 'a channel stream made anew: refuse or restart')
    .option('--log-level <level>', 'trace, debug, info, warn or error')
    .option('--config <file>', 'settings as JSON')
    .exitOverride()
    .configureOutput({ writeErr: (s) => process.stderr.write(s) });
  c.parse([...argv], { from: 'user' });
  const { config, ...flags } = c.opts<Record<string, unknown>>();
  for (const key of ['root', 'shard', 'shards'])
    if (
      c.getOptionValueSource(key) === 'default' &&
      `DELIVERYD_${key.toUpperCase()}` in process.env
    )
      delete flags[key];
  return { flags, file: typeof config === 'string' ? config : process.env['DELIVERYD_CONFIG'] };
}

/** Runs until a signal or a fatal state; answers the exit code. Never exits the process itself. */
export async function runDeliveryd(argv: readonly string[]): Promise<number> {
  let settings: Settings;
  try {
    const { flags, file } = parse(argv);
    settings = resolveSettings({ flags, env: process.env, file });
  } catch (e) {
    return reportStartFailure(e);
  }
  const log = createFileLogger({
    space: settings.space,
    level: settings.logLevel,
    file: spacePaths(settings.root, settings.space).deliveryLog,
  });
  try {
    return await serve(settings, log);
  } catch (e) {
    const error = isPlane3Error(e) ? e : new Plane3Error('defect', { cause: e });
    log.fatal(
      {
        event: 'daemon.exit',
        code: error.code,
        exit: error.exitCode,
        context: error.context,
        ...(error.code === 'defect' ? { stack: e instanceof Error ? e.stack : String(e) } : {}),
      },
      `${error.message}; repair: ${error.help}`,
    );
    return error.exitCode;
  } finally {
    log.flush();
  }
}

async function serve(settings: Settings, log: Logger): Promise<number> {
  const stop = armSignals(log);
  const delivery = await startDelivery({ settings, log, stopRequested: stop.first });
  const paths = spacePaths(settings.root, settings.space);
  const record = new ProcessRecord(paths.deliveryPid);
  await record.write({ incarnation: delivery.incarnation, space: settings.space });
  try {
    const ended = await Promise.race([stop.first, delivery.ended]);
    const late = setTimeout(() => stop.force(1), SHUTDOWN_MAX_MS);
    await delivery.close();
    clearTimeout(late);
    if (isPlane3Error(ended)) throw ended;
    log.info({ event: 'daemon.exit', exit: 0, signal: ended }, 'stopped by a signal');
    return 0;
  } finally {
    await record.remove();
    stop.disarm();
  }
}

interface SignalStop {
  /** Resolves with the name of the first signal. */
  readonly first: Promise<NodeJS.Signals>;
  force(code: number): void;
  disarm(): void;
}

/** First signal: an orderly stop. Second: now. Armed before anything is claimed. */
function armSignals(log: Logger): SignalStop {
  let seen = 0;
  let tell: (s: NodeJS.Signals) => void = () => {};
  const first = new Promise<NodeJS.Signals>((ok) => {
    tell = ok;
  });
  const force = (code: number): void => {
    log.warn({ event: 'daemon.exit', exit: code }, 'ended before the orderly stop was complete');
    process.exit(code);
  };
  const handler = (s: NodeJS.Signals): void => {
    if (++seen > 1) force(ERRORS['timed-out'].exitCode);
    else tell(s);
  };
  const signals: NodeJS.Signals[] = ['SIGTERM', 'SIGINT', 'SIGHUP'];
  for (const s of signals) process.on(s, handler);
  return {
    first,
    force,
    disarm: () => {
      for (const s of signals) process.off(s, handler);
    },
  };
}

function reportStartFailure(e: unknown): number {
  if (e instanceof CommanderError) return e.exitCode === 0 ? 0 : ERRORS.usage.exitCode;
  const error = isPlane3Error(e) ? e : new Plane3Error('defect', { cause: e });
  process.stderr.write(`error: ${error.message} [${error.code}]\nrepair: ${error.help}\n`);
  return error.exitCode;
}
