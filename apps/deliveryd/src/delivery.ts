import {
  type Acquired,
  type LeaseNotice,
  LeaseRuntime,
  type LeaseStatus,
  refusalError,
} from '@plane3/lease';
import { NatsFence, NatsLeaseRow } from '@plane3/lease/nats';
import {
  handOverFenceSubject,
  inboxFenceSubject,
  leaseKey,
  Plane3Error,
  type SpaceNames,
  spaceNames,
} from '@plane3/protocol';
import { newUid } from '@plane3/space';
import { admit } from './admission.ts';
import { type Engine, startEngine } from './compose.ts';
import { type Connections, openConnections } from './connections.ts';
import { clock, hostProbe, timers } from './host.ts';
import { LeaseDisplay } from './lease-display.ts';
import type { Logger } from './log.ts';
import { type Mesh, resolveMesh } from './mesh.ts';
import { ScheduleLodger } from './schedule-lodger.ts';
import type { Settings } from './settings.ts';
import { requireStreams } from './streams.ts';

export interface DeliveryOptions {
  readonly settings: Settings;
  readonly log: Logger;
  /** Default: the mesh record of the root. */
  readonly mesh?: Mesh;
  /** Ends a start that waits: resolves when the host wants to stop. */
  readonly stopRequested?: Promise<unknown>;
}

export interface Delivery {
  readonly incarnation: string;
  /** Settles with the reason when the daemon cannot go on; never by `close`. */
  readonly ended: Promise<Plane3Error>;
  status(): { readonly lease: LeaseStatus; readonly serving: boolean };
  /** Stops intake, takes back what is unconfirmed, releases the lease, closes; bounded. */
  close(): Promise<void>;
}

/** The daemon's principal, as its lease row and its credential name it. */
const HOLDER = 'local.delivery';
const BROKER_LOOK_MS = 500;

/**
 * Starts a daemon inside this process. Order: transport and credentials, streams read back,
 * observer admission, lease, fence, engine, ready. Throws the reason of a refusal; nothing of it
 * is left then. Never exits the host and installs no signal handlers.
 */
export async function startDelivery(o: DeliveryOptions): Promise<Delivery> {
  const { settings, log } = o;
  const mesh = o.mesh ?? resolveMesh(settings);
  const names = spaceNames(settings.space);
  const connections = await openConnections(mesh, log);
  try {
    await requireStreams(connections, names);
    const observer = await admit(mesh, log);
    const daemon = new Daemon({ ...o, mesh, names, connections, observer });
    await daemon.start();
    return daemon;
  } catch (e) {
    await connections.close();
    throw e;
  }
}

interface DaemonParts extends DeliveryOptions {
  readonly mesh: Mesh;
  readonly names: SpaceNames;
  readonly connections: Connections;
  readonly observer: { readonly evictor: 'present' | 'absent' };
}

class Daemon implements Delivery {
  readonly incarnation = newUid();
  readonly ended: Promise<Plane3Error>;
  readonly #p: DaemonParts;
  readonly #display: LeaseDisplay;
  readonly #lodger: ScheduleLodger;
  #lease!: LeaseRuntime;
  #engine: Engine | undefined;
  /** One change of the engine at a time: start, quiesce, start again. */
  #turn: Promise<void> = Promise.resolve();
  #end: (e: Plane3Error) => void = () => {};
  #watch: NodeJS.Timeout | undefined;
  #closing: Promise<void> | undefined;

  constructor(p: DaemonParts) {
    this.#p = p;
    this.ended = new Promise((ok) => {
      this.#end = ok;
    });
    this.#display = new LeaseDisplay(p.connections.spaceWrites, p.names, p.settings.shard);
    this.#lodger = new ScheduleLodger(p.mesh, p.names, p.log);
  }

  async start(): Promise<void> {
    const { names, connections, settings, log } = this.#p;
    const { shard } = settings;
    const probe = await hostProbe();
    this.#lease = new LeaseRuntime(
      {
        row: new NatsLeaseRow({ link: connections.lease, bucket: names.buckets.lease, shard }),
        fences: {
          inbox: new NatsFence({
            link: connections.lease,
            stream: names.streams.inbox,
            subject: inboxFenceSubject(names.prefix, shard),
          }),
          dlv: new NatsFence({
            link: connections.space,
            stream: names.streams.dlv,
            subject: handOverFenceSubject(names.prefix, shard),
          }),
        },
        hostProbe: probe,
        host: { arm: () => {}, quiesce: (reason) => this.#quiesce(reason) },
        clock,
        timers,
      },
      { holder: HOLDER, incarnation: this.incarnation },
    );
    this.#lease.on((n) => this.#notice(n));
    try {
      const acquired = await this.#lease.acquire();
      if (acquired.kind === 'refused') throw this.#refusal(acquired);
      log.info(
        {
          event: 'lease.acquired',
          component: 'lease',
          incarnation: this.incarnation,
          how: acquired.how,
          ttlMs: acquired.ttlMs,
        },
        'holds the lease',
      );
      await this.#serveTerm();
      this.#lodger.start();
      this.#watch = setInterval(() => this.#lookAtBroker(), BROKER_LOOK_MS);
    } catch (e) {
      await this.#engine?.stop();
      await this.#lease.release();
      throw e;
    }
  }

  status(): { readonly lease: LeaseStatus; readonly serving: boolean } {
    return { lease: this.#lease.status(), serving: this.#engine !== undefined };
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    clearInterval(this.#watch);
    const lodger = this.#lodger.stop();
    await this.#turn;
    await this.#engine?.stop();
    this.#engine = undefined;
    const { rowLeft } = await this.#lease.release();
    if (rowLeft)
      this.#p.log.warn({ event: 'lease.left', component: 'lease' }, 'the row is left to expire');
    await lodger;
    await this.#p.connections.close();
  }

  /** Fence, engine, ready; everything is new in each term. */
  async #serveTerm(): Promise<void> {
    const { log, settings, names, connections, mesh } = this.#p;
    const fence = await this.#lease.establishFence();
    if (fence.kind === 'refused')
      throw new Plane3Error('lease-lost', { detail: `fence: ${fence.reason}: ${fence.detail}` });
    this.#engine = await startEngine({
      settings,
      log,
      names,
      connections,
      mesh,
      lease: this.#lease,
      holder: HOLDER,
      incarnation: this.incarnation,
      epoch: String(fence.leaseRevision),
      fence: { inbox: fence.inbox, dlv: fence.dlv },
      observer: this.#p.observer,
      schedules: () => this.#lodger.part(),
      onFenceLost: (detail) => this.#fenceRefused(detail),
      onFatal: (e) => this.#end(e),
    });
    if (!(await this.#lease.markReady()))
      throw new Plane3Error('lease-lost', { detail: 'before the daemon was ready' });
    log.info(
      { event: 'daemon.ready', component: 'daemon', incarnation: this.incarnation, ready: true },
      'serves',
    );
  }

  /** Called by the lease before it asks anything: nothing is consumed, written or answered after. */
  async #quiesce(reason: string): Promise<void> {
    this.#p.log.warn({ event: 'lease.doubt', component: 'lease', reason }, 'quiesced');
    const engine = this.#engine;
    this.#engine = undefined;
    await engine?.quiesce();
  }

  #notice(n: LeaseNotice): void {
    const { log } = this.#p;
    if (n.kind === 'renewed') this.#display.show(this.#lease.status(), HOLDER, n.ready);
    else if (n.kind === 'regained') {
      log.info({ event: 'lease.regained', component: 'lease', how: n.how }, 'mine again');
      this.#turn = this.#turn.then(() => this.#restart());
    } else if (n.kind === 'lost')
      this.#end(new Plane3Error('lease-lost', { detail: `${n.reason}: ${n.detail}` }));
    else if (n.kind === 'expiry' && n.verdict === 'broken')
      this.#end(new Plane3Error('lease-expiry-broken'));
  }

  async #restart(): Promise<void> {
    try {
      await this.#serveTerm();
    } catch (e) {
      this.#end(e instanceof Plane3Error ? e : new Plane3Error('defect', { cause: e }));
    }
  }

  /**
   * The broker refused a write for the fence: a successor's mark, or a message that somebody made
   * the broker plant there. The lease tells the two apart: it quiesces, asks, and is lost or mine.
   */
  #fenceRefused(detail: string): void {
    this.#p.log.warn({ event: 'fence.refused', component: 'fence', detail }, 'a write was refused');
    this.#lease.fenceRefused();
  }

  /** A blip is ridden out; a broker that stays away for longer than the window ends the daemon. */
  #lookAtBroker(): void {
    const sinceMs = this.#p.connections.brokenSinceMs();
    if (sinceMs === undefined || performance.now() - sinceMs < this.#p.settings.brokerGoneMs)
      return;
    this.#end(
      new Plane3Error('broker-unreachable', {
        detail: `for longer than ${this.#p.settings.brokerGoneMs} ms`,
      }),
    );
  }

  #refusal(acquired: Extract<Acquired, { kind: 'refused' }>): Plane3Error {
    return refusalError(acquired.refusal, leaseKey(this.#p.settings.shard));
  }
}
