// The faults, each ending in a mesh that serves again.
import { setTimeout as sleep } from 'node:timers/promises';
import { signal } from './mesh.mjs';

/** A stopped holder sleeps longer than its lease lives by this much at most. */
const PAST_TTL_MS = 1_500;

const ended = (child) =>
  child.exitCode !== null || child.signalCode !== null
    ? Promise.resolve()
    : new Promise((ok) => child.once('exit', ok));

/** How often a fault strikes, where that is more than once. */
export const HITS = { 'daemon-stutter': 3, 'daemon-kill-in-start': 4 };

export const FAULTS = {
  async 'daemon-kill'(mesh) {
    signal(mesh.daemonPid(), 'SIGKILL');
    await mesh.up();
  },
  async 'daemon-kill-away'(mesh, random) {
    signal(mesh.daemonPid(), 'SIGKILL');
    await sleep(500 + random() * 2_000);
    await mesh.up();
  },
  /** Dies while it starts, at any moment of it, and again. */
  async 'daemon-kill-in-start'(mesh, random) {
    signal(mesh.daemonPid(), 'SIGKILL');
    for (let n = 0; n < 3; n++) {
      const child = mesh.rival();
      await sleep(250 + random() * 500);
      child.kill('SIGKILL');
      await ended(child);
    }
    await mesh.up();
  },
  /** Stalls beyond the lease and wakes up alone. */
  async 'daemon-stall'(mesh, random) {
    const pid = mesh.daemonPid();
    signal(pid, 'SIGSTOP');
    await sleep(mesh.leaseTtlMs + random() * PAST_TTL_MS);
    signal(pid, 'SIGCONT');
    await sleep(300);
    await mesh.up();
  },
  /** Stalls beyond the lease, and wakes up while another one serves. */
  async 'daemon-stall-rival'(mesh, random) {
    const pid = mesh.daemonPid();
    signal(pid, 'SIGSTOP');
    await sleep(mesh.leaseTtlMs + 300);
    let child = mesh.rival();
    await sleep(1_000 + random() * 1_500);
    if (child.exitCode !== null) child = mesh.rival();
    signal(pid, 'SIGCONT');
    await sleep(1_500);
    await mesh.up();
  },
  /** Stalls for less than the lease, several times: no handover of the lease, only late timers. */
  async 'daemon-stutter'(mesh, random) {
    const pid = mesh.daemonPid();
    for (let n = 0; n < 3; n++) {
      signal(pid, 'SIGSTOP');
      await sleep(random() * mesh.leaseTtlMs * 0.8);
      signal(pid, 'SIGCONT');
      await sleep(random() * 300);
    }
    await mesh.up();
  },
  async 'broker-kill'(mesh, random) {
    signal(mesh.brokerPid(), 'SIGKILL');
    await sleep(random() * 1_500);
    await mesh.up();
  },
  /** Answers nothing for a while, then answers everything, late. */
  async 'broker-stall'(mesh, random) {
    const pid = mesh.brokerPid();
    signal(pid, 'SIGSTOP');
    await sleep(500 + random() * (mesh.leaseTtlMs + PAST_TTL_MS));
    signal(pid, 'SIGCONT');
    await sleep(300);
    await mesh.up();
  },
  async 'both-kill'(mesh) {
    signal(mesh.brokerPid(), 'SIGKILL');
    signal(mesh.daemonPid(), 'SIGKILL');
    await mesh.up();
  },
  async 'daemon-term'(mesh) {
    signal(mesh.daemonPid(), 'SIGTERM');
    await sleep(1_500);
    await mesh.up();
  },
};
