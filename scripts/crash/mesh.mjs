// A mesh of the built command line in a folder of its own; faults go to processes by their own pid.
import { execFile, spawn } from 'node:child_process';
import { existsSync, openSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { openLink } from '../../packages/link/dist/index.js';
import { spaceNames } from '../../packages/protocol/dist/index.js';
import { mint, readMeshRecord, spacePaths, TrustStore } from '../../packages/space/dist/index.js';

const run = promisify(execFile);
const CLI = path.resolve(import.meta.dirname, '../../apps/cotal/bundle/main.js');
const DAEMON = path.resolve(import.meta.dirname, '../../apps/deliveryd/bundle/main.js');
const UP_TIMEOUT_MS = 40_000;
const UP_TRIES_MAX = 6;

export class Mesh {
  constructor(root, { leaseTtlMs, settings }) {
    this.root = root;
    this.space = 'main';
    this.leaseTtlMs = leaseTtlMs;
    this.env = { ...process.env, ...settings };
    this.names = spaceNames(this.space);
    this.paths = spacePaths(root, this.space);
    /** What `up` said when it failed. */
    this.upFailures = [];
    this.rivals = [];
  }

  #cli(...args) {
    const all = [CLI, ...args, '--root', this.root, '--space', this.space];
    return run(process.execPath, all, { env: this.env, timeout: UP_TIMEOUT_MS });
  }

  /** Until it serves. */
  async up() {
    for (let n = 1; ; n++) {
      try {
        await this.#cli('up', '--lease-ttl', `${this.leaseTtlMs}ms`);
        return;
      } catch (e) {
        this.upFailures.push(
          String(e.stderr ?? e)
            .trim()
            .split('\n')
            .slice(-3)
            .join(' | '),
        );
        if (n >= UP_TRIES_MAX) throw new Error(`up failed ${n} times: ${this.upFailures.at(-1)}`);
        await sleep(300);
      }
    }
  }

  async down() {
    for (const r of this.rivals)
      if (r.exitCode === null && r.signalCode === null) r.kill('SIGKILL');
    await this.#cli('down').catch((e) => this.upFailures.push(`down: ${e.stderr ?? e}`));
  }

  get record() {
    return readMeshRecord(this.root, this.space);
  }
  get trust() {
    this.trustState ??= new TrustStore(this.root).open(this.space);
    return this.trustState;
  }
  adminOptions() {
    const { trust, names } = this;
    return { trust, names, servers: [this.record.server], transport: { kind: 'plain' } };
  }

  async credentials(profile) {
    return mint({ trust: this.trust, names: this.names, profile, args: {} });
  }
  link(name, credentials) {
    const servers = [this.record.server];
    return openLink({ name, servers, transport: { kind: 'plain' }, credentials });
  }
  async linkAs(profile) {
    const minted = await this.credentials(profile);
    const bytes = new TextEncoder().encode(minted.creds);
    return { link: await this.link(profile, () => bytes), lifecycle: minted.lifecycle };
  }

  daemonPid() {
    return pidOf(this.paths.deliveryPid);
  }
  brokerPid() {
    return pidOf(this.paths.brokerPid);
  }

  /** A second daemon, in competition with the first or instead of it. */
  rival() {
    const fd = openSync(path.join(this.root, 'rival.stderr'), 'a');
    const args = [DAEMON, '--root', this.root, '--space', this.space];
    const child = spawn(process.execPath, args, { env: this.env, stdio: ['ignore', 'ignore', fd] });
    this.rivals.push(child);
    return child;
  }

  logLines() {
    if (!existsSync(this.paths.deliveryLog)) return [];
    return readFileSync(this.paths.deliveryLog, 'utf8').trim().split('\n').map(parseLine);
  }
}

const parseLine = (line) => {
  try {
    return JSON.parse(line);
  } catch {
    return { level: 60, event: 'unreadable', msg: line };
  }
};

function pidOf(file) {
  try {
    return JSON.parse(readFileSync(file, 'utf8')).pid;
  } catch {
    return undefined;
  }
}

/** Signals one process; false: it was gone. */
export function signal(pid, name) {
  if (pid === undefined) return false;
  try {
    process.kill(pid, name);
    return true;
  } catch {
    return false;
  }
}

/** Resident memory in MiB and processor time in ms of a process, where the system tells. */
export function usage(pid) {
  try {
    const rss = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'));
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ');
    return { rssMib: Math.round(Number(rss[1]) / 1024), cpuMs: (+stat[11] + +stat[12]) * 10 };
  } catch {
    return undefined;
  }
}
