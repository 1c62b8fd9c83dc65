import { type CredentialSource, Link, type LinkEvent, Publisher } from '@plane3/link';
import type { Logger } from './log.ts';
import type { Mesh } from './mesh.ts';

/**
 * The daemon's connections. Reads and writes of the lease have one of their own, so that a renewal
 * never queues behind a fan-out; so has the schedule writer, which is a lodger.
 */
export interface Connections {
  /** Space account: posts, hand-over, endpoint. */
  readonly space: Link;
  /** Vault: inbox, members, rights, records. */
  readonly vault: Link;
  /** Vault, for the lease alone. */
  readonly lease: Link;
  readonly spaceWrites: Publisher;
  readonly vaultWrites: Publisher;
  /** How long the oldest loss of one of them lasts; undefined while all stand. */
  brokenSinceMs(): number | undefined;
  close(): Promise<void>;
}

export async function openConnections(mesh: Mesh, log: Logger): Promise<Connections> {
  const lost = new Map<string, number>();
  const opened: Link[] = [];
  const open = async (name: string, credentials: CredentialSource): Promise<Link> => {
    const link = await Link.open({
      name: `deliveryd-${name}`,
      servers: mesh.servers,
      transport: mesh.transport,
      credentials,
      onEvent: (e) => logLink(log, name, e),
    });
    link.onLost(() => lost.set(name, performance.now()));
    link.onRestored(() => lost.delete(name));
    opened.push(link);
    return link;
  };
  try {
    const vault = await open('vault', mesh.vault);
    const lease = await open('lease', mesh.vault);
    const space = await open('space', mesh.delivery);
    const spaceWrites = new Publisher(space);
    const vaultWrites = new Publisher(vault);
    return {
      space,
      vault,
      lease,
      spaceWrites,
      vaultWrites,
      brokenSinceMs: () => (lost.size === 0 ? undefined : Math.min(...lost.values())),
      close: async () => {
        for (const p of [spaceWrites, vaultWrites]) p.close();
        await Promise.all(opened.map((l) => l.close()));
      },
    };
  } catch (e) {
    await Promise.all(opened.map((l) => l.close()));
    throw e;
  }
}

/** One line per state change; what repeats is at debug. */
export function logLink(log: Logger, name: string, e: LinkEvent): void {
  const component = `link.${name}`;
  if (e.kind === 'permission-denied')
    log.warn({ event: 'link.denied', component, ...e.denial }, 'the broker refused a subject');
  else if (e.kind === 'disconnected')
    log.warn({ event: 'link.lost', component, server: e.detail }, 'connection lost');
  else if (e.kind === 'reconnected')
    log.info({ event: 'link.restored', component, server: e.detail }, 'connection restored');
  else log.debug({ event: `link.${e.kind}`, component, detail: e.detail }, e.kind);
}
