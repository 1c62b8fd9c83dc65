import { done, type LifecycleKey, type Outcome, unknown } from '@plane3/protocol';
import { adoptAll } from './adopting.ts';
import { add, type Counters } from './counters.ts';
import { type Desk, LateAcks, type ReaderEvent, type Term, untilAnswered } from './desk.ts';
import { Issuer } from './issuing.ts';
import { Leaver } from './leaving.ts';
import { Listener } from './listening.ts';
import { initial, isReady, step } from './machine.ts';
import type { Decision, EntryFacts, Event, StoredEntry } from './model.ts';
import type { AttachmentNews, ReaderPorts, StoreRefusal } from './ports.ts';
import { Recaller } from './recalling.ts';
import { type Disposal, judgeRelease, type Verdict } from './release-policy.ts';
import { limitsOf, type ReaderSettings } from './settings.ts';

/** Members that get a turn before everything else of the process gets one. */
const TURNS_AT_ONCE = 64;
/** Sweeps between two looks at what is handed over. */
const SWEEPS_PER_REJUDGE = 10;

export interface TermOptions {
  readonly ports: ReaderPorts;
  readonly settings: ReaderSettings;
  readonly counters: Counters;
  readonly incarnation: string;
  readonly emit: (event: ReaderEvent) => void;
}

/**
 * One term of the reader: from a fence to its loss or to `stop`. Carries the machines' decisions
 * out and brings the answers back; decides nothing itself.
 */
export class ReaderTerm implements Term {
  readonly ports: ReaderPorts;
  readonly settings: ReaderSettings;
  readonly counters: Counters;
  readonly incarnation: string;
  readonly desks = new Map<LifecycleKey, Desk>();
  readonly issuer: Issuer;
  readonly leaver: Leaver;
  readonly recaller: Recaller;
  readonly late: LateAcks;
  readonly listener: Listener;
  /** Generations being disposed of: refused whatever the registry still says. */
  readonly barred = new Map<(e: EntryFacts) => boolean, Disposal>();
  readonly #emit: (event: ReaderEvent) => void;
  readonly #ready = new Set<Desk>();
  readonly #readsWaiting: { desk: Desk; read: Extract<Decision, { kind: 'read' }> }[] = [];
  readonly #closers: (() => void)[] = [];
  #readsOpen = 0;
  #pumping = false;
  #ended = false;
  #adopted = false;
  #quiet = false;
  #cancelSweep: () => void = () => {};
  #sweeps = 0;
  #handOverMissing = false;
  #handOverIncarnation: string | undefined;

  constructor(o: TermOptions) {
    this.ports = o.ports;
    this.settings = o.settings;
    this.counters = o.counters;
    this.incarnation = o.incarnation;
    this.#emit = o.emit;
    this.issuer = new Issuer(this, () => this.#wake());
    this.leaver = new Leaver(this);
    this.late = new LateAcks(o.settings.lateAcksMax, o.settings.lateAckMs);
    this.recaller = new Recaller(this, this.late);
    this.listener = new Listener(this, this.leaver, this.late);
  }

  get ended(): boolean {
    return this.#ended;
  }

  get handOverMissing(): boolean {
    return this.#handOverMissing;
  }

  get ready(): boolean {
    return this.#adopted && !this.#ended && !this.#quiet;
  }

  /** Takes on nothing new any more. */
  quiesce(): void {
    this.#quiet = true;
    for (const desk of this.desks.values()) this.tell(desk, { kind: 'hold' });
  }

  nowMs(): number {
    return this.ports.clock.monotonicMs();
  }

  emit(event: ReaderEvent): void {
    if (!this.#ended) this.#emit(event);
  }

  /** Listens first, then looks at what lies there, then begins. */
  async open(): Promise<Outcome<void, StoreRefusal>> {
    const acks = await this.ports.confirmations.open((a) => this.listener.hear(a));
    if (acks.kind !== 'done') return acks;
    this.#closers.push(acks.value);
    const created = await this.ports.handOver.incarnation();
    if (created.kind !== 'done') return created;
    this.#handOverIncarnation = created.value;
    const copies = await this.ports.handOver.open();
    if (copies.kind !== 'done') return copies;
    const deskOf = (member: LifecycleKey): Desk => this.#deskOf(member);
    const { leaver, recaller, late } = this;
    const adopted = await adoptAll(this, { leaver, recaller, late, deskOf }, copies.value);
    if (adopted.kind !== 'done') return adopted;
    this.#adopted = true;
    this.listener.begin();
    const news = await this.ports.attachments.open((n) => this.attachmentNews(n));
    if (news.kind !== 'done') return news;
    this.#closers.push(news.value);
    this.#nextSweep();
    return this.#ended ? unknown('the term ended while it began') : done(undefined);
  }

  /** No effect leaves this term any more. */
  end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#cancelSweep();
    for (const close of this.#closers.splice(0)) close();
    for (const desk of this.desks.values()) for (const f of [...desk.resolved]) f();
    this.desks.clear();
    this.#ready.clear();
    void this.ports.handOver.close();
  }

  endAtOnce(event: ReaderEvent): void {
    if (this.#ended) return;
    this.end();
    this.#emit(event);
  }

  readonly judge = (e: EntryFacts): Verdict => {
    for (const [isBarred, reason] of this.barred)
      if (isBarred(e)) return { kind: 'refuse', effect: 'dispose', reason };
    const { rights, memberships } = this.ports;
    return judgeRelease(e, {
      rights: { current: rights.isCurrent(), row: rights.rowOf(e.entry.member) },
      membership:
        e.kind === 'mention'
          ? { kind: 'none' }
          : memberships.generationState({
              member: e.entry.member,
              channel: e.channel,
              generation: e.entry.generation,
            }),
      leaveBoundary: this.settings.leaveBoundary,
    });
  };

  tell(desk: Desk, event: Event): void {
    if (this.#ended) return;
    for (const d of step(desk.state, event, this.judge).decisions) this.#carryOut(desk, d);
    if (this.#ended || !isReady(desk.state) || this.#ready.has(desk)) return;
    if (event.kind !== 'turn' && this.#ready.size === 0 && this.issuer.hasRoom) this.#turn(desk);
    else {
      this.#ready.add(desk);
      this.#wake();
    }
  }

  noteStored(entry: StoredEntry): void {
    const desk = this.desks.get(entry.entry.member);
    if (desk !== undefined) this.tell(desk, { kind: 'stored', entry });
  }

  attachmentNews(n: AttachmentNews): void {
    if (!this.ready) return;
    const nowMs = this.nowMs();
    if (n.kind === 'absent') {
      const desk = this.desks.get(n.member);
      if (desk !== undefined) this.tell(desk, { kind: 'detach', nowMs });
      return;
    }
    const row = this.ports.rights.rowOf(n.member);
    if (row === undefined || row.retiredAt !== undefined) {
      this.counters.attachmentsIgnored++;
      return;
    }
    const desk = this.#deskOf(n.member);
    const isNew = desk.state.attachment !== 'attached';
    this.tell(desk, { kind: 'attach', nowMs, untilMs: nowMs + n.forMs });
    if (isNew) void this.#ensureDurable(n.member);
  }

  #deskOf(member: LifecycleKey): Desk {
    const known = this.desks.get(member);
    if (known !== undefined) return known;
    const desk: Desk = {
      member,
      state: initial(member, limitsOf(this.settings), this.nowMs(), this.late.handOversOf(member)),
      recalls: Promise.resolve(done(0)),
      recallOwed: false,
      resolved: new Set(),
      leavingCopies: new Set(),
      openAbove: new Map(),
      spentCopies: [],
      leftOver: 0,
    };
    this.desks.set(member, desk);
    for (const facts of this.leaver.of(member))
      this.tell(desk, { kind: 'late', facts, nowMs: this.nowMs() });
    return desk;
  }

  async #ensureDurable(member: LifecycleKey): Promise<void> {
    const deadlineMs = this.nowMs() + this.settings.ackWaitMs;
    const o = await untilAnswered(this, deadlineMs, () =>
      this.ports.handOver.ensureDurable(member),
    );
    if (o.kind !== 'done' || o.value === 'present' || this.#ended) return;
    this.counters.durables[o.value]++;
    this.emit({ kind: 'durable-repaired', member, how: o.value });
  }

  #carryOut(desk: Desk, d: Decision): void {
    switch (d.kind) {
      case 'publish':
        this.issuer.publish(desk, d.entry, d.handOver);
        break;
      case 'read':
        this.#readsWaiting.push({ desk, read: d });
        this.#pumpReads();
        break;
      case 'learn':
        void this.listener.learn(desk, d.copySeq);
        break;
      case 'leave':
        this.leaver.leave(d);
        break;
      case 'drop-copy':
        this.leaver.dropCopy(desk, d.copySeq);
        break;
      case 'remove-refused': {
        const deadlineMs = this.nowMs() + this.settings.ackWaitMs;
        const remove = () => this.ports.handOver.removeCopy(d.copySeq);
        void untilAnswered(this, deadlineMs, remove);
        break;
      }
      case 'recall': {
        const these = new Set(d.storeSeqs);
        const select =
          d.cause === 'expired'
            ? (e: EntryFacts) => these.has(e.storeSeq)
            : (e: EntryFacts) => this.judge(e).kind !== 'allow';
        void this.recaller.recall(desk, select, d.cause);
        break;
      }
      case 'detached':
        void this.#detach(desk);
        break;
      case 'unknown-copy':
        add(this.counters.acksIgnored, 'unknown-copy');
        break;
      case 'count':
        this.#count(d.what);
        break;
      default:
        d satisfies never;
    }
  }

  #count(what: Extract<Decision, { kind: 'count' }>['what']): void {
    if (what === 'watchdog-repair') this.counters.watchdogRepairs++;
    else if (what === 'refused-by-member') this.counters.refusedByMember++;
    else if (what === 'ack-of-another-copy') add(this.counters.acksIgnored, 'another-copy');
    else add(this.counters.acksIgnored, 'vanished-copy');
  }

  // Turns go round: a member that has more to hand over goes to the end of the queue.

  #wake(): void {
    if (this.#pumping || this.#ended || this.#ready.size === 0) return;
    this.#pumping = true;
    this.ports.timers.soon(() => {
      this.#pumping = false;
      let turns = 0;
      for (const desk of this.#ready) {
        if (!this.issuer.hasRoom || turns++ >= TURNS_AT_ONCE) break;
        this.#ready.delete(desk);
        this.#turn(desk);
      }
      if (this.issuer.hasRoom) this.#wake();
    });
  }

  #turn(desk: Desk): void {
    this.tell(desk, { kind: 'turn', nowMs: this.nowMs(), budget: this.settings.turnEntries });
  }

  #pumpReads(): void {
    while (this.#readsOpen < this.settings.readsOpenMax) {
      const next = this.#readsWaiting.shift();
      if (next === undefined) return;
      void this.#read(next.desk, next.read);
    }
  }

  async #read(desk: Desk, read: Extract<Decision, { kind: 'read' }>): Promise<void> {
    if (desk.state.reading !== read.readId) return;
    this.#readsOpen++;
    const { pageEntries, pageBytes } = this.settings;
    const max = { entries: pageEntries, bytes: pageBytes };
    const o = await this.ports.store.read(desk.member, read.fromSeq, max);
    this.#readsOpen--;
    if (this.#ended) return;
    if (o.kind === 'done') {
      this.counters.foreignEntries += o.value.foreign;
      const { entries, nextSeq, complete } = o.value;
      this.tell(desk, { kind: 'read', readId: read.readId, entries, nextSeq, complete });
    } else {
      this.counters.readsFailed++;
      this.tell(desk, { kind: 'read-failed', readId: read.readId, nowMs: this.nowMs() });
    }
    this.#pumpReads();
  }

  /** Forgets a member that stayed away, once nothing of it lies within reach or is on its way out. */
  async #detach(desk: Desk): Promise<void> {
    const o = await this.recaller.recall(desk, () => true, 'detached');
    if (this.#ended) return;
    desk.state.detaching = false;
    if (desk.state.attachment === 'attached' || o.kind !== 'done') return;
    if (desk.state.held.size === 0 && desk.state.holds === 0) this.desks.delete(desk.member);
  }

  #nextSweep(): void {
    this.#cancelSweep = this.ports.timers.after(this.settings.sweepMs, () => void this.#sweep());
  }

  async #sweep(): Promise<void> {
    if (this.#ended) return;
    const nowMs = this.nowMs();
    this.late.forget(nowMs);
    this.leaver.retry();
    const all = ++this.#sweeps % SWEEPS_PER_REJUDGE === 0;
    for (const desk of [...this.desks.values()]) {
      this.tell(desk, { kind: 'tick', nowMs });
      if (all || desk.recallOwed) {
        desk.recallOwed = false;
        this.tell(desk, { kind: 'rejudge', nowMs });
      }
    }
    const o = await this.ports.handOver.incarnation();
    if (this.#ended) return;
    if (o.kind !== 'unknown')
      this.#handOverMissing = o.kind === 'refused' && o.reason === 'missing';
    if (o.kind === 'done' && o.value !== this.#handOverIncarnation)
      this.endAtOnce({ kind: 'hand-over-recreated', detail: o.value });
    else this.#nextSweep();
  }
}
