import type { StatusData, StatusPart } from '@plane3/endpoint';
import { DELIVERY_ENDPOINT } from '@plane3/endpoint';
import { type EndpointServer, publishContracts, serve } from '@plane3/endpoint/nats';
import { FanOut, type FanOutEvent } from '@plane3/fan-out';
import { NatsCopyStore, NatsDeadPosts, NatsPostSource } from '@plane3/fan-out/nats';
import type { LeaseRuntime } from '@plane3/lease';
import { BucketView, JetStreamApi } from '@plane3/link';
import {
  done,
  inboxFenceSubject,
  type LifecycleKey,
  type Outcome,
  Plane3Error,
  type Presence,
  parseRecord,
  presenceSchema,
  refused,
  type SpaceNames,
} from '@plane3/protocol';
import { copyTtlMs, type EntryFacts, Reader } from '@plane3/reader';
import {
  NatsAttachments,
  NatsConfirmations,
  NatsEntryStore,
  NatsHandOver,
} from '@plane3/reader/nats';
import { Registry, type RightAnswer } from '@plane3/registry';
import { NatsFrontier, NatsMembershipStore } from '@plane3/registry/nats';
import { ChannelDirectory } from './channels.ts';
import type { Connections } from './connections.ts';
import { deliveryHandlers } from './handlers.ts';
import { clock, timers } from './host.ts';
import type { Logger } from './log.ts';
import { membershipState } from './membership-state.ts';
import type { Mesh } from './mesh.ts';
import { RightsDirectory } from './rights.ts';
import { RightsSettler } from './rights-settler.ts';
import type { Settings } from './settings.ts';
import { overallState, statusParts } from './status-parts.ts';
import { SteadyNoise } from './steady-noise.ts';

/**
 * The composition: the only place where the six domain packages meet. One engine is one term of
 * the lease; it is thrown away when the term is in doubt, and a new one starts from the store.
 */
export interface EngineParts {
  readonly settings: Settings;
  readonly log: Logger;
  readonly names: SpaceNames;
  readonly connections: Connections;
  readonly mesh: Mesh;
  readonly lease: LeaseRuntime;
  /** Principal that the lease row names. */
  readonly holder: string;
  readonly incarnation: string;
  /** Advances with every term; part of every reply's subject. */
  readonly epoch: string;
  readonly fence: { readonly inbox: number; readonly dlv: number };
  readonly observer: { readonly evictor: 'present' | 'absent' };
  readonly schedules: () => StatusPart;
  readonly onFenceLost: (detail: string) => void;
  readonly onFatal: (e: Plane3Error) => void;
}

export interface Engine {
  /** At once: no intake, no write, no answer. For a lease that is in doubt. */
  quiesce(): Promise<void>;
  /** Orderly: what is unconfirmed is taken back first. */
  stop(): Promise<void>;
}

/** Throws the reason when it cannot serve; what it had started is stopped then. */
export async function startEngine(p: EngineParts): Promise<Engine> {
  const engine = new DeliveryEngine(p);
  try {
    await engine.start();
    return engine;
  } catch (e) {
    await engine.quiesce();
    throw e;
  }
}

const must = <T>(what: string, o: Outcome<T>): T => {
  if (o.kind === 'done') return o.value;
  if (o.kind === 'unknown')
    throw new Plane3Error('broker-unreachable', { detail: `${what}: ${o.cause}` });
  if (o.reason === 'permission-denied')
    throw new Plane3Error('permission-denied', { detail: `${what}: ${o.detail}` });
  if (o.reason === 'not-found' || o.reason === 'missing')
    throw new Plane3Error('stream-missing', { detail: `${what}: ${o.detail}` });
  if (o.reason === 'fence-lost')
    throw new Plane3Error('lease-lost', { detail: `${what}: ${o.detail}` });
  if (o.reason === 'store-recreated')
    throw new Plane3Error('store-recreated', { detail: `${what}: ${o.detail}` });
  throw new Plane3Error('failed-precondition', { detail: `${what}: ${o.reason}: ${o.detail}` });
};

class DeliveryEngine implements Engine {
  readonly #p: EngineParts;
  readonly #rights: RightsDirectory;
  readonly #channels: ChannelDirectory;
  readonly #presence: BucketView<Presence>;
  readonly #registry: Registry;
  readonly #fanOut: FanOut;
  readonly #reader: Reader;
  readonly #settler: RightsSettler;
  readonly #chat: JetStreamApi;
  readonly #inbox: JetStreamApi;
  readonly #entries: NatsEntryStore;
  readonly #sinceMs = Date.now();
  readonly #noise = new SteadyNoise(clock.nowMs);
  #server: EndpointServer | undefined;
  #stopped = false;

  constructor(p: EngineParts) {
    const { names, settings, connections } = p;
    this.#p = p;
    this.#chat = new JetStreamApi(connections.space);
    this.#inbox = new JetStreamApi(connections.vault);
    this.#entries = new NatsEntryStore({ api: this.#inbox, names });
    this.#rights = new RightsDirectory(connections.vault, names, settings.viewFreshnessMs);
    this.#channels = new ChannelDirectory(connections.vault, names, settings.viewFreshnessMs);
    this.#presence = new BucketView(connections.space, names.buckets.presence, {
      parse: (bytes) => parseRecord(presenceSchema, bytes),
    });
    this.#registry = this.#makeRegistry();
    this.#fanOut = this.#makeFanOut();
    this.#reader = this.#makeReader();
    this.#settler = new RightsSettler(this.#rights, this.#reader, this.#registry, p.log);
    this.#connect();
  }

  async start(): Promise<void> {
    const { fence, incarnation, connections, log } = this.#p;
    must('rights', await this.#rights.view.start());
    must('channels', await this.#channels.start());
    must('presence', await this.#presence.start());
    this.#channels.displayWith(connections.spaceWrites);
    must('memberships', await this.#registry.start());
    // Without a cursor (a space's first start) every post that is kept is decided.
    const started = await this.#fanOut.start({
      fenceSeq: fence.inbox,
      incarnation,
      onRecreated: this.#p.settings.onRecreated,
    });
    must('fan-out', started);
    must('reader', await this.#reader.start({ fenceSeq: fence.dlv, incarnation }));
    this.#settler.start();
    const contracts = await publishContracts({
      publisher: connections.spaceWrites,
      prefix: this.#p.names.prefix,
    });
    // Descriptive only: a missing artifact hinders nobody who asks `describe`.
    if (contracts.kind !== 'done')
      log.warn(
        { event: 'contracts.unpublished', component: 'endpoint', contracts },
        'not published',
      );
    this.#server = must('endpoint', await this.#serve());
  }

  async quiesce(): Promise<void> {
    await this.#end(true);
  }

  async stop(): Promise<void> {
    await this.#end(false);
  }

  async #end(inDoubt: boolean): Promise<void> {
    if (this.#stopped) return;
    this.#stopped = true;
    this.#settler.stop();
    const server = this.#server?.stop();
    const reader = this.#reader.stop({ retract: !inDoubt });
    const fanOut = this.#fanOut.stop();
    await Promise.all([server, reader, fanOut]);
    await this.#registry.stop();
    await Promise.all([
      this.#rights.view.stop(),
      this.#channels.view.stop(),
      this.#presence.stop(),
    ]);
  }

  #makeRegistry(): Registry {
    const { names, connections, incarnation, settings, log } = this.#p;
    return new Registry(
      {
        store: new NatsMembershipStore({
          link: connections.vault,
          publisher: connections.vaultWrites,
          bucket: names.buckets.members,
          freshnessMs: settings.viewFreshnessMs,
        }),
        frontier: new NatsFrontier(connections.space, names.streams.chat),
        position: {
          decided: () => {
            const seq = this.#fanOut.decided();
            const cursor = this.#fanOut.cursor();
            return seq === undefined || cursor === undefined
              ? undefined
              : { incarnation: cursor.incarnation, seq };
          },
        },
        catchUp: { copy: (range) => this.#catchUp(range) },
        boundary: { close: (b) => this.#closeBoundary(b) },
        rights: { ask: async (member, channel) => this.#mayJoin(member, channel) },
        clock,
        timers,
        report: (r) => log.info({ component: 'registry', ...r }, r.event),
      },
      incarnation,
      { windowPosts: settings.catchUpPosts, windowAgeMs: settings.catchUpMs },
    );
  }

  #makeFanOut(): FanOut {
    const { names, connections, settings } = this.#p;
    return new FanOut(
      {
        source: new NatsPostSource({ link: connections.space, api: this.#chat, names }),
        store: new NatsCopyStore({
          api: this.#inbox,
          publisher: connections.vaultWrites,
          names,
          shard: settings.shard,
        }),
        dead: new NatsDeadPosts({ api: this.#inbox, publisher: connections.vaultWrites, names }),
        directory: {
          classOf: (channel) => this.#channels.classOf(channel),
          membersOf: (channel, seq) => this.#registry.membersOf(channel, seq),
          resolveMention: (name) => this.#rights.resolveMention(name),
          mayRead: (member, channel) => this.#rights.mayRead(member, channel),
          isCurrent: () =>
            this.#rights.isCurrent && this.#channels.isCurrent && this.#registry.isCurrent(),
          revisions: () => ({
            acl: this.#rights.view.revision,
            channels: this.#channels.view.revision,
          }),
        },
        clock,
        timers,
      },
      { prefix: names.prefix, mentionCopiesMax: settings.mentionsPerMinute },
    );
  }

  #makeReader(): Reader {
    const { names, connections, settings } = this.#p;
    return new Reader(
      {
        store: this.#entries,
        handOver: new NatsHandOver({
          link: connections.space,
          publisher: connections.spaceWrites,
          names,
          shard: settings.shard,
          ackWaitMs: settings.ackWaitMs,
          copyTtlMs: copyTtlMs(settings),
        }),
        confirmations: new NatsConfirmations({ link: connections.space, names }),
        attachments: new NatsAttachments({
          link: connections.space,
          names,
          presence: this.#presence,
        }),
        rights: {
          rowOf: (member) => this.#rights.rowOf(member),
          isCurrent: () => this.#rights.isCurrent,
        },
        memberships: {
          generationState: (m) =>
            membershipState(this.#registry.generationState(m.member, m.channel, m.generation)),
        },
        progress: { mayLeaveStore: (e) => this.#mayLeaveStore(e) },
        clock,
        timers,
      },
      {
        windowEntries: settings.windowEntries,
        windowBytes: settings.windowBytes,
        ackWaitMs: settings.ackWaitMs,
        detachGraceMs: settings.detachGraceMs,
      },
    );
  }

  #connect(): void {
    const { log, onFenceLost } = this.#p;
    this.#fanOut.onStored((copy) => this.#reader.noteStored(copy));
    this.#fanOut.onCursor(() => this.#reader.progressed());
    this.#registry.onChange((_channel, member) => {
      this.#reader.progressed();
      void this.#reader.membershipChanged(member);
    });
    this.#fanOut.onEvent((e) => this.#fanOutEvent(e));
    this.#reader.onEvent((e) => {
      if (e.kind === 'fence-lost') onFenceLost(`hand-over: ${e.detail}`);
      else if (e.kind === 'hand-over-recreated')
        // The new stream has no fence yet, and whoever holds the lease may put one there.
        onFenceLost(`hand-over: the stream was made anew (${e.detail})`);
      else log.info({ component: 'reader', ...e }, e.kind);
    });
  }

  #fanOutEvent(e: FanOutEvent): void {
    const { log, onFenceLost, onFatal } = this.#p;
    if (e.kind === 'fence-lost') onFenceLost(`store: ${e.detail}`);
    else if (e.kind === 'store-recreated' && e.refused)
      onFatal(new Plane3Error('store-recreated', { detail: 'CHAT', context: { ...e } }));
    else {
      const unwritten = this.#noise.admit(
        e.kind === 'phase' ? `${e.phase} ${e.reason?.trouble ?? ''}` : e.kind,
      );
      if (unwritten === undefined) return;
      const more = unwritten === 0 ? {} : { unwritten };
      if (e.kind === 'phase')
        log.info(
          {
            event: 'fan-out.phase',
            component: 'fan-out',
            phase: e.phase,
            reason: e.reason,
            ...more,
          },
          e.phase,
        );
      else log.warn({ event: `fan-out.${e.kind}`, component: 'fan-out', ...e, ...more }, e.kind);
    }
  }

  async #catchUp(range: {
    readonly row: {
      readonly member: LifecycleKey;
      readonly channel: string;
      readonly generation: number;
    };
    readonly from: number;
    readonly to: number;
  }) {
    const { member, channel, generation } = range.row;
    const { from, to } = range;
    if (to > from) {
      const copied = await this.#fanOut.catchUp({ member, channel, generation, from, to });
      if (copied.kind !== 'done') return copied;
      const held = await this.#holdsFence();
      if (held.kind !== 'done') return held;
      const { lost } = copied.value;
      return done(lost === undefined ? {} : { lost });
    }
    const held = await this.#holdsFence();
    return held.kind === 'done' ? done({}) : held;
  }

  /** Whether the last fence is ours, by the leader, at a moment after this call. */
  async #holdsFence(): Promise<Outcome<void>> {
    const { names, settings, fence } = this.#p;
    const subject = inboxFenceSubject(names.prefix, settings.shard);
    const last = await this.#inbox.lastOf(names.streams.inbox, subject);
    if (last.kind !== 'done') return last;
    return last.value?.seq === fence.inbox
      ? done(undefined)
      : refused('fence-lost', 'another fence');
  }

  async #closeBoundary(b: {
    readonly member: LifecycleKey;
    readonly channel: string;
    readonly generation: number;
  }): Promise<Outcome<{ readonly disposed: number }>> {
    const settled = await this.#fanOut.settle(b.member, b.channel);
    if (settled.kind !== 'done') return settled;
    const reason = this.#rights.isLive(b.member) ? 'left' : 'retired';
    const { member, channel, generation } = b;
    const disposed = await this.#reader.dispose({ member, channel, generation, reason });
    return disposed.kind === 'done' ? done({ disposed: disposed.value }) : disposed;
  }

  #mayJoin(member: LifecycleKey, channel: string): RightAnswer {
    if (!this.#rights.isCurrent) return 'cannot-tell';
    if (this.#rights.rowOf(member) === undefined) return 'unknown-lifecycle';
    return this.#rights.mayRead(member, channel) ? 'allow' : 'refuse';
  }

  /** The cursor has passed the post; a copy of a join's catch-up waits for the activation too. */
  #mayLeaveStore({ entry, channel, kind }: EntryFacts): boolean {
    const cursor = this.#fanOut.cursor();
    if (cursor === undefined) return false;
    if (cursor.incarnation === entry.incarnation && entry.seq > cursor.seq) return false;
    if (kind !== 'durable') return true;
    const row = this.#registry.membershipOf(entry.member, channel);
    return row === undefined || row.generation !== entry.generation || row.state !== 'joining';
  }

  #serve() {
    const { names, connections, incarnation, epoch, lease, log, settings } = this.#p;
    return serve({
      link: connections.space,
      prefix: names.prefix,
      endpoint: DELIVERY_ENDPOINT,
      instanceId: incarnation,
      epoch,
      gate: () => !this.#stopped && lease.trusted(),
      onFault: (fault) =>
        log.error({ event: 'endpoint.fault', component: 'endpoint', ...fault }, fault.kind),
      commands: deliveryHandlers({
        names,
        registry: this.#registry,
        reader: this.#reader,
        windowEntries: settings.windowEntries,
        membersWithEntries: () => this.#entries.members(),
        rights: this.#rights,
        channels: this.#channels,
        lease,
        holder: this.#p.holder,
        incarnation,
        sinceMs: this.#sinceMs,
        frontier: async () => {
          const info = await this.#chat.streamInfo(names.streams.chat);
          return info.kind === 'done' ? done(info.value.state.last_seq) : info;
        },
        settledRights: (revision, timeoutMs) => this.#settler.settled(revision, timeoutMs),
        state: () => this.#state(),
        parts: () => this.#parts(),
      }),
    });
  }

  #state(): { readonly state: string; readonly reason?: string } {
    return overallState(this.#p.lease.status().ready, this.#parts());
  }

  #parts(): StatusData['parts'] {
    return statusParts({
      fanOut: this.#fanOut.status(),
      reader: this.#reader.status(),
      registry: this.#registry.status(),
      schedules: this.#p.schedules(),
      evictor: this.#p.observer.evictor,
      sinceMs: this.#sinceMs,
    });
  }
}
