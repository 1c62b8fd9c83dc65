import { identify, stillRunning } from '@plane3/broker';
import type { HostFacts, HostProbe } from '@plane3/lease';
import { Plane3Error } from '@plane3/protocol';

/** Clock and timers of this process, for every runtime; none of them keeps the process alive. */
export const clock = {
  monotonicMs: (): number => performance.now(),
  nowMs: (): number => performance.now(),
  wallMs: (): number => Date.now(),
};

export const timers = {
  after: (ms: number, run: () => void): (() => void) => {
    const timer = setTimeout(run, ms);
    return () => clearTimeout(timer);
  },
  /** After what is under way in this turn of the loop. */
  soon: (run: () => void): void => void setImmediate(run),
};

/** Facts about this process for the lease row, and proofs about others of this host. */
export async function hostProbe(): Promise<HostProbe> {
  const self = await identify();
  if (self === undefined)
    throw new Plane3Error('not-ours', {
      detail: 'this system does not tell the identity of processes',
      help: 'run it on Linux or macOS',
    });
  const facts: HostFacts = { boot: self.boot, pid: self.pid, start: self.start };
  return {
    self: () => facts,
    judge: async (host) => {
      const standing = await stillRunning(host);
      if (standing === 'proved-ours') return 'alive';
      return standing === 'unprovable' ? 'unknown' : 'dead';
    },
  };
}
