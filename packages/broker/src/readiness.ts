import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isAccepting, isGreeted } from './port.ts';

const LOOK_EVERY_MS = 5;

export interface ReadyFacts {
  readonly listenHost: string;
  readonly port: number;
  readonly url: string;
  readonly monitorUrl?: string;
}

export interface ReadinessOptions {
  readonly portsDir: string;
  readonly pid: number;
  readonly isHandshakeFirst: boolean;
  readonly timeoutMs: number;
  readonly hasEnded: () => boolean;
}

/**
 * Waits until this very process has told its port and greets on it. `undefined`: it ended, or the
 * time ran out. The ports file bears the pid and is written when the listeners are open.
 */
export async function readiness(o: ReadinessOptions): Promise<ReadyFacts | undefined> {
  const endMs = performance.now() + o.timeoutMs;
  while (!o.hasEnded() && performance.now() < endMs) {
    const facts = await portsOf(o.portsDir, o.pid);
    if (facts !== undefined) {
      const probe = o.isHandshakeFirst ? isAccepting : isGreeted;
      if ((await probe(facts.listenHost, facts.port)) && !o.hasEnded()) return facts;
    }
    await sleep(LOOK_EVERY_MS);
  }
  return undefined;
}

async function portsOf(portsDir: string, pid: number): Promise<ReadyFacts | undefined> {
  const names = await readdir(portsDir).catch(() => []);
  const name = names.find((n) => n.endsWith(`_${pid}.ports`));
  if (name === undefined) return undefined;
  try {
    const text = await readFile(path.join(portsDir, name), 'utf8');
    const ports = JSON.parse(text) as Record<string, readonly string[] | undefined>;
    const first = ports['nats']?.[0];
    if (first === undefined) return undefined;
    const { hostname, port } = new URL(first);
    const monitorUrl = ports['monitoring']?.[0];
    return {
      listenHost: hostname.replace(/^\[(.*)\]$/, '$1'),
      port: Number(port),
      url: `nats://${hostname}:${port}`,
      ...(monitorUrl === undefined ? {} : { monitorUrl }),
    };
  } catch {
    return undefined; // half written
  }
}
