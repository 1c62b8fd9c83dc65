import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ended, hasEnded, makeDir, pauseProcess, track } from './children.ts';
import { Lines } from './lines.ts';

const READY_MAX_MS = 15_000;
/** Another socket may hold the ephemeral port for a moment after a restart. */
const REBIND_ATTEMPTS_MAX = 40;

export interface NatsOptions {
  /** Default true. */
  readonly jetstream?: boolean;
  /** Further command line arguments, for instance `-DV`. */
  readonly args?: readonly string[];
  /**
   * Text of a configuration file: accounts, users, operator mode, TLS. Host, port and store come
   * from the command line and win over it.
   */
  readonly config?: string;
  /** Default: the kernel picks one. */
  readonly port?: number;
}

/** One nats-server on 127.0.0.1, in a folder of its own. */
export interface NatsProc {
  readonly url: string;
  readonly port: number;
  readonly pid: number;
  /** JetStream's folder; survives `restart`, goes with `stop`. */
  readonly store: string;
  /** Every log line of every start. */
  readonly lines: readonly string[];
  /** Log lines about a refused publish or subscription: a test of grants expects none. */
  violations(): string[];
  waitForLine(pattern: RegExp, timeoutMs?: number): Promise<string>;
  /** Default SIGKILL; resolves when the process has ended. */
  kill(signal?: NodeJS.Signals): Promise<void>;
  /** Kills it if it runs and starts it on the same port and store. */
  restart(): Promise<void>;
  /** SIGSTOP: when it returns nothing answers any more; the sockets stay open. */
  pause(): void;
  /** SIGCONT. */
  resume(): void;
  /** Rewrites the configuration file and waits until the server has read it. */
  reload(config: string): Promise<void>;
  /** Kills it and removes its folder. */
  stop(): Promise<void>;
}

class Nats implements NatsProc {
  readonly store: string;
  port: number;
  readonly #dir: string;
  readonly #configFile: string;
  readonly #options: NatsOptions;
  readonly #log = new Lines();
  #boots = 0;
  #child: ChildProcess | undefined;

  constructor(options: NatsOptions) {
    this.#options = options;
    this.#dir = makeDir('nats');
    this.store = join(this.#dir, 'js');
    this.#configFile = join(this.#dir, 'server.conf');
    this.port = options.port ?? -1;
    if (options.config !== undefined) writeFileSync(this.#configFile, options.config);
  }

  get url(): string {
    return `nats://127.0.0.1:${this.port}`;
  }
  get pid(): number {
    return this.#child?.pid ?? -1;
  }
  get lines(): readonly string[] {
    return this.#log.all;
  }
  violations(): string[] {
    return this.#log.matching(/Violation/i);
  }
  waitForLine(pattern: RegExp, timeoutMs?: number): Promise<string> {
    return this.#log.waitFor(pattern, timeoutMs);
  }

  async boot(): Promise<void> {
    const ports = join(this.#dir, `ports-${this.#boots++}`); // the server writes its port there
    mkdirSync(ports);
    const child = spawn(natsBinary(), this.#arguments(ports), {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    this.#child = child;
    track(child, this.#dir);
    const from = this.#log.all.length;
    this.#log.read(child.stderr);
    for (const end = Date.now() + READY_MAX_MS; ; await sleep(5)) {
      const log = (): string => this.#log.all.slice(from).join('\n');
      if (hasEnded(child)) throw new Error(`nats-server ended before it was ready:\n${log()}`);
      const port = readPort(ports);
      if (port !== undefined) {
        this.port = port;
        return;
      }
      if (Date.now() > end) throw new Error(`nats-server was not ready in time:\n${log()}`);
    }
  }

  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    if (this.#child === undefined) return;
    this.#child.kill(signal);
    await ended(this.#child);
  }

  async restart(): Promise<void> {
    await this.kill();
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.boot();
      } catch (e) {
        if (attempt === REBIND_ATTEMPTS_MAX || !/address already in use/.test(String(e))) throw e;
        await sleep(50);
      }
    }
  }

  pause(): void {
    if (this.#child !== undefined) pauseProcess(this.#child);
  }
  resume(): void {
    this.#child?.kill('SIGCONT');
  }

  async reload(config: string): Promise<void> {
    if (this.#options.config === undefined) throw new Error('started without a configuration');
    writeFileSync(this.#configFile, config);
    const from = this.#log.all.length;
    this.#child?.kill('SIGHUP');
    await this.#log.waitFor(/Reloaded server configuration/, READY_MAX_MS, from);
  }

  async stop(): Promise<void> {
    await this.kill();
    rmSync(this.#dir, { recursive: true, force: true, maxRetries: 5 });
  }

  #arguments(ports: string): string[] {
    const { jetstream, config, args } = this.#options;
    return [
      ...(config === undefined ? [] : ['-c', this.#configFile]),
      ...['-a', '127.0.0.1', '-p', String(this.port), '--ports_file_dir', ports],
      ...(jetstream === false ? [] : ['-js', '-sd', this.store]),
      ...(args ?? []),
    ];
  }
}

/** The binary that the global set-up located. */
export function natsBinary(): string {
  const bin = process.env['PLANE3_TEST_NATS_BIN'];
  if (bin === undefined)
    throw new Error('PLANE3_TEST_NATS_BIN is unset: run through vitest, which locates the broker');
  return bin;
}

function readPort(dir: string): number | undefined {
  for (const file of readdirSync(dir)) {
    const text = readFileSync(join(dir, file), 'utf8');
    if (!text.trim().endsWith('}')) continue; // half written
    const url = (JSON.parse(text) as { nats?: string[] }).nats?.[0];
    if (url !== undefined) return Number(new URL(url).port);
  }
  return undefined;
}

/** Starts a broker and resolves when it listens (about 15 ms). */
export async function startNats(options: NatsOptions = {}): Promise<NatsProc> {
  const nats = new Nats(options);
  await nats.boot();
  return nats;
}
