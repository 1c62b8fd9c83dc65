import { readFileSync, readlinkSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import type { HostFacts, HostVerdict } from '../model.ts';
import type { Clock, HostProbe, Timers } from '../ports.ts';

/** States in which a process never runs again: zombie and dead. */
const ENDED = new Set(['Z', 'X', 'x']);
/** What another system than Linux says; it equals no real boot id, so nothing is judged there. */
const NO_BOOT = 'unknown';

/**
 * Processes of this host by Linux's /proc. The boot id names the boot of the machine, the pid name
 * space what a pid means in it (two containers on one machine share the former only).
 */
export class LinuxHostProbe implements HostProbe {
  readonly #self: HostFacts;

  constructor() {
    this.#self = readSelf();
  }

  self(): HostFacts {
    return this.#self;
  }

  async judge(host: HostFacts): Promise<HostVerdict> {
    if (this.#self.boot === NO_BOOT || host.boot !== this.#self.boot) return 'unknown';
    if (!Number.isSafeInteger(host.pid) || host.pid <= 0) return 'unknown';
    let stat: string;
    try {
      // Whoever hides other users' processes hides this one as well; then absence proves nothing.
      stat = await readFile(`/proc/${host.pid}/stat`, 'latin1');
    } catch (e) {
      return codeOf(e) === 'ENOENT' ? (hasNoProcess(host.pid) ? 'dead' : 'unknown') : 'unknown';
    }
    const { state, start } = parseStat(stat);
    if (start === undefined || state === undefined) return 'unknown';
    return start === host.start && !ENDED.has(state) ? 'alive' : 'dead';
  }
}

function readSelf(): HostFacts {
  try {
    const bootId = readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').trim();
    const space = /\[(\d+)\]/.exec(readlinkSync('/proc/self/ns/pid'))?.[1];
    const { start } = parseStat(readFileSync('/proc/self/stat', 'latin1'));
    if (space !== undefined && start !== undefined)
      return { boot: `${bootId}.${space}`, pid: process.pid, start };
  } catch {
    // Not Linux, or no /proc: nobody can prove anything about a process here.
  }
  return { boot: NO_BOOT, pid: process.pid, start: '' };
}

/** The name in parentheses may contain anything; the fields count from behind it. */
function parseStat(stat: string): { state: string | undefined; start: string | undefined } {
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return { state: fields[0], start: fields[19] };
}

function hasNoProcess(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return false;
  } catch (e) {
    return codeOf(e) === 'ESRCH';
  }
}

const codeOf = (e: unknown): unknown => (e as { code?: unknown }).code;

export const systemClock: Clock = {
  nowMs: () => performance.now(),
  wallMs: () => Date.now(),
};

export const systemTimers: Timers = {
  after: (ms, f) => {
    const timer = setTimeout(f, ms);
    return () => clearTimeout(timer);
  },
};
