import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, mkdirSync, openSync } from 'node:fs';
import { mkdir, open, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { Plane3Error } from '@plane3/protocol';
import { identify } from './identity.ts';
import { takeStartLock, writePidRecord } from './pid-record.ts';
import { isPortTaken, listenerOf } from './port.ts';
import { readiness } from './readiness.ts';
import { type BrokerRecord, findBroker, portsFolderOf, unprovable } from './record.ts';
import { type StopOptions, type Stopped, stopProcess } from './stop.ts';

/** A store of many gigabytes is read before the broker listens. */
const READY_TIMEOUT_MS = 30_000;
const LOG_LINES_KEPT = 20;
/** The broker rotates its log there. */
const LOG_BYTES_MAX = 16 << 20;
const LOG_TAIL_BYTES = 16 << 10;

export type BrokerOutput =
  /** Outlives the caller; writes to the file. */
  | { readonly kind: 'detached'; readonly logFile: string }
  /** Ends with the caller's terminal; its lines come to `onLine`. */
  | { readonly kind: 'attached'; readonly onLine?: (line: string) => void };

export interface StartOptions {
  /** From {@link locateBroker}. */
  readonly bin: string;
  readonly configFile: string;
  /** Where the identity record is kept; one broker per record file. */
  readonly recordFile: string;
  readonly output: BrokerOutput;
  /** Outranks the configuration. Port -1: the broker picks one. Unset: as configured. */
  readonly listen?: { readonly host: string; readonly port: number };
  /** The broker greets nobody before TLS: readiness is then an accepted connection. */
  readonly handshakeFirst?: boolean;
  readonly readyTimeoutMs?: number;
}

export interface RunningBroker {
  readonly record: BrokerRecord;
  /** Settles when the process ends, as long as the caller lives. */
  readonly exited: Promise<Exit>;
  stop(o?: StopOptions): Promise<Stopped>;
}

export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  /** Code of the system if it could not be started at all. */
  readonly spawnError?: string;
}

/**
 * Starts a broker and answers when it serves. Throws
 * - `already-exists`: the broker of this record runs (its record in the context);
 * - `not-ours`: the record file cannot be judged from here;
 * - `conflict`: another process is starting it at this moment;
 * - `port-in-use`: with whom to ask;
 * - `broker-failed`: it ended before it was ready, with its last lines;
 * - `timed-out`: it was not ready in time, and was ended again.
 */
export async function startBroker(o: StartOptions): Promise<RunningBroker> {
  await mkdir(path.dirname(o.recordFile), { recursive: true });
  const lock = await takeStartLock(`${o.recordFile}.lock`);
  try {
    await makeRoom(o.recordFile);
    if (o.listen !== undefined && o.listen.port > 0) await refuseTakenPort(o.listen);
    return await launch(o);
  } finally {
    await lock.release();
  }
}

/** The lock is held: a broker that is not ready was left by a starter that was killed. */
async function makeRoom(recordFile: string): Promise<void> {
  const found = await findBroker(recordFile);
  if (found.kind === 'unprovable') throw unprovable(recordFile, found.detail);
  if (found.kind !== 'running') return;
  if (!found.record.ready) {
    await stopProcess(found.record);
    return;
  }
  throw new Plane3Error('already-exists', {
    detail: `the broker of ${recordFile} runs as process ${found.record.pid}`,
    context: { record: found.record },
  });
}

async function refuseTakenPort(listen: { host: string; port: number }): Promise<void> {
  if (!(await isPortTaken(listen.host, listen.port))) return;
  const who = await listenerOf(listen.port);
  const tool =
    process.platform === 'linux'
      ? `ss -ltnp 'sport = :${listen.port}'`
      : `lsof -nP -iTCP:${listen.port} -sTCP:LISTEN`;
  throw new Plane3Error('port-in-use', {
    detail:
      who === undefined
        ? `${listen.host}:${listen.port}; ask ${tool}`
        : `${listen.host}:${listen.port} by process ${who.pid} (${who.executable})`,
    context: { ...listen, ...(who === undefined ? {} : { holder: who }) },
  });
}

async function launch(o: StartOptions): Promise<RunningBroker> {
  const portsDir = portsFolderOf(o.recordFile);
  await rm(portsDir, { recursive: true, force: true });
  await mkdir(portsDir, { recursive: true });
  const { child, exited, lastLines } = await spawnBroker(o, portsDir);
  let ended: Exit | undefined;
  const failed = exited.then((exit) => {
    ended = exit;
  });
  try {
    const draft = await firstRecord(o, child);
    if (draft === undefined) {
      child.kill('SIGKILL');
      await failed;
      throw await failure(o, ended, await lastLines());
    }
    const timeoutMs = o.readyTimeoutMs ?? READY_TIMEOUT_MS;
    const ready = await readiness({
      portsDir,
      pid: child.pid ?? 0,
      isHandshakeFirst: o.handshakeFirst === true,
      timeoutMs,
      hasEnded: () => ended !== undefined,
    });
    if (ready === undefined && ended === undefined)
      throw new Plane3Error('timed-out', {
        detail: `the broker was not ready within ${timeoutMs} ms`,
        context: { lines: await lastLines() },
      });
    if (ready === undefined) throw await failure(o, ended, await lastLines());
    const record: BrokerRecord = { ...draft, ...ready, ready: true };
    await writePidRecord(o.recordFile, record);
    if (o.output.kind === 'detached') child.unref();
    return { record, exited, stop: (s) => stopProcess(record, s) };
  } catch (e) {
    // Our own child, not yet reaped: the handle cannot reach another process.
    child.kill('SIGKILL');
    await failed;
    await rm(o.recordFile, { force: true });
    await rm(portsDir, { recursive: true, force: true });
    throw e;
  }
}

/** Written before it serves, so that a broker of a killed starter is found again. */
async function firstRecord(
  o: StartOptions,
  child: ChildProcess,
): Promise<BrokerRecord | undefined> {
  const self = child.pid === undefined ? undefined : await identify(child.pid);
  if (self === undefined) return undefined;
  const record: BrokerRecord = {
    ...self,
    ready: false,
    listenHost: o.listen?.host ?? '',
    port: 0,
    url: '',
    bin: o.bin,
    configFile: o.configFile,
    ...(o.output.kind === 'detached' ? { logFile: o.output.logFile } : {}),
    startedAtMs: Date.now(),
  };
  await writePidRecord(o.recordFile, record);
  return record;
}

async function failure(
  o: StartOptions,
  exit: Exit | undefined,
  lines: readonly string[],
): Promise<Plane3Error> {
  // Somebody took the port between our look and the broker's: told by the kernel, not by the log.
  if (o.listen !== undefined && o.listen.port > 0)
    try {
      await refuseTakenPort(o.listen);
    } catch (e) {
      if (e instanceof Plane3Error) return e;
      throw e;
    }
  const how = exit?.spawnError
    ? `before it began: ${exit.spawnError}`
    : exit?.signal
      ? `by ${exit.signal}`
      : `with exit code ${exit?.code}`;
  return new Plane3Error('broker-failed', {
    detail: [
      `${how} (configuration ${o.configFile}); its last lines:`,
      ...lines.map((l) => `  ${l}`),
    ].join('\n'),
    context: { bin: o.bin, configFile: o.configFile, lines, ...exit },
  });
}

interface Spawned {
  readonly child: ChildProcess;
  readonly exited: Promise<Exit>;
  lastLines(): Promise<readonly string[]>;
}

async function spawnBroker(o: StartOptions, portsDir: string): Promise<Spawned> {
  const args = ['-c', o.configFile, '--ports_file_dir', portsDir];
  if (o.listen !== undefined) args.push('-a', o.listen.host, '-p', String(o.listen.port));
  return o.output.kind === 'detached'
    ? spawnDetached(o.bin, args, o.output.logFile)
    : spawnAttached(o.bin, args, o.output.onLine ?? (() => {}));
}

async function spawnDetached(bin: string, args: string[], logFile: string): Promise<Spawned> {
  mkdirSync(path.dirname(logFile), { recursive: true });
  const fromByte = await stat(logFile).then(
    (s) => s.size,
    () => 0,
  );
  // The broker writes and rotates the log by itself; what it says before that, and a panic, goes
  // to its standard error, which is the same file.
  const log = openSync(logFile, 'a', 0o600);
  try {
    const child = spawn(bin, [...args, '-l', logFile, '--log_size_limit', String(LOG_BYTES_MAX)], {
      detached: true,
      stdio: ['ignore', log, log],
    });
    const exited = exitOf(child);
    return { child, exited, lastLines: () => tailOf(logFile, fromByte) };
  } finally {
    closeSync(log);
  }
}

function spawnAttached(bin: string, args: string[], onLine: (line: string) => void): Spawned {
  const child = spawn(bin, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  const kept: string[] = [];
  for (const stream of [child.stdout, child.stderr])
    createInterface({ input: stream }).on('line', (line) => {
      kept.push(line);
      if (kept.length > LOG_LINES_KEPT) kept.shift();
      onLine(line);
    });
  return { child, exited: exitOf(child), lastLines: () => Promise.resolve([...kept]) };
}

/** `close`, not `exit`: its last lines have been read by then. */
const exitOf = (child: ChildProcess): Promise<Exit> =>
  new Promise((ok) => {
    child.once('error', (e: NodeJS.ErrnoException) =>
      ok({ code: null, signal: null, spawnError: e.code ?? e.message }),
    );
    child.once('close', (code, signal) => ok({ code, signal }));
  });

async function tailOf(file: string, fromByte: number): Promise<readonly string[]> {
  const handle = await open(file, 'r').catch(() => undefined);
  if (handle === undefined) return [];
  try {
    const { size } = await handle.stat();
    const from = Math.max(size - LOG_TAIL_BYTES, fromByte > size ? 0 : fromByte);
    const { buffer, bytesRead } = await handle.read({
      buffer: Buffer.alloc(LOG_TAIL_BYTES),
      position: from,
    });
    const lines = buffer.toString('utf8', 0, bytesRead).split('\n');
    return lines.filter((l) => l.trim() !== '').slice(-LOG_LINES_KEPT);
  } finally {
    await handle.close();
  }
}
