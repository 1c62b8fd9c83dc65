import type { StatusPart } from '@plane3/endpoint';
import { type CredentialSource, type Link, openLink } from '@plane3/link';
import type { SpaceNames } from '@plane3/protocol';
import { ScheduleWriter } from '@plane3/schedule-writer';
import { natsSessions } from '@plane3/schedule-writer/nats';
import { logLink } from './connections.ts';
import { flatCounters } from './counters.ts';
import { clock, timers } from './host.ts';
import type { Logger } from './log.ts';
import type { Mesh } from './mesh.ts';

/** The schedule writer as a lodger: own connections, own supervisor, no way to reach delivery. */
export class ScheduleLodger {
  readonly #writer: ScheduleWriter;
  readonly #sinceMs = Date.now();

  constructor(mesh: Mesh, names: SpaceNames, log: Logger) {
    const open = (name: string, credentials: CredentialSource): Promise<Link> =>
      openLink({
        name: `deliveryd-${name}`,
        servers: mesh.servers,
        transport: mesh.transport,
        credentials,
        onEvent: (e) => logLink(log, name, e),
      });
    this.#writer = new ScheduleWriter(
      {
        sessions: natsSessions({
          names,
          openSpace: () => open('timers-space', mesh.delivery),
          openVault: () => open('timers-vault', mesh.vault),
        }),
        clock,
        timers,
        random: Math.random,
        onEvent: (e) => log.info({ component: 'schedule-writer', ...e }, e.event),
      },
      { prefix: names.prefix },
    );
  }

  start(): void {
    this.#writer.start();
  }

  stop(): Promise<void> {
    return this.#writer.stop();
  }

  part(): StatusPart {
    const s = this.#writer.status();
    return {
      state:
        s.state === 'serving' ? 'serving' : s.state === 'unavailable' ? 'unavailable' : 'degraded',
      since: s.sinceMs ?? this.#sinceMs,
      ...(s.why === undefined ? {} : { reason: s.why }),
      counters: { ...flatCounters(s.counts), in_flight: s.inFlight, failures: s.failures },
    };
  }
}
