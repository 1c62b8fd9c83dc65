import { done, type LifecycleKey, type Outcome, refused, unknown } from '@plane3/protocol';
import type {
  FanOutEvent,
  FanOutPorts,
  FanOutSettings,
  FanOutStatus,
  StartRefusal,
  StoredCopy,
} from './api.ts';
import { type CatchUpRefusal, type CatchUpRequest, type CaughtUp, catchUp } from './catch-up.ts';
import { Waiters } from './listeners.ts';
import { DEFAULT_LIMITS, initial, step } from './machine.ts';
import type { Event, FanOutCursor, Limits, StartOptions, State } from './model.ts';
import { Performer, type Term } from './perform.ts';
import { openOf } from './taking.ts';

interface OpenCatchUp {
  readonly member: LifecycleKey;
  readonly channel: string;
  settled: boolean;
  running: boolean;
}

/** Catch-ups that run at the same time; more of them wait for their turn. */
const CATCH_UPS_RUNNING_MAX = 8;
const START_WAIT_MS = 30_000;
const STOP_WAIT_MS = 500;
const SETTLE_WAIT_MS = 10_000;
const CATCH_UP_WAIT_MS = 10_000;

/**
 * The shell around the machine. Everything is one sequence of events, so no two steps overlap.
 */
export class FanOut {
  private readonly ports: FanOutPorts;
  private readonly settings: FanOutSettings;
  private readonly limits: Limits;
  private readonly performer: Performer;
  private readonly waiters: Waiters;
  private readonly catchUps = new Set<OpenCatchUp>();
  private readonly queue: Event[] = [];
  private state: State;
  private stepping = false;
  private term: Term | undefined;
  private since: number;

  constructor(ports: FanOutPorts, settings: FanOutSettings) {
    this.ports = ports;
    this.settings = settings;
    this.limits = { ...DEFAULT_LIMITS, ...settings.limits };
    this.performer = new Performer(ports, settings);
    this.waiters = new Waiters(ports.timers);
    this.state = initial(this.limits);
    this.since = ports.clock.wallMs();
  }

  /**
   * Answers once posts are taken. `unknown` means that it has not come so far in time and goes on
   * trying; `refused` that it never will without another start.
   *
   * @param o.fenceSeq sequence of this holder's own fence message in the member store
   * @param o.incarnation of the daemon; noted in the cursor for people
   * @param o.fromSeqIfNoCursor first post to read when the store holds no cursor
   */
  async start(
    o: { readonly fenceSeq: number; readonly incarnation: string } & Partial<StartOptions>,
  ): Promise<Outcome<{ readonly completed: number }, StartRefusal>> {
    if (this.term !== undefined) {
      if (!this.hasEnded(this.term)) return refused('already-started', this.state.phase);
      this.term.over = true;
    }
    const term: Term = { writer: o.incarnation, dispatch: (e) => this.dispatch(e), over: false };
    this.term = term;
    this.state = initial(this.limits, this.state.counters);
    this.ports.store.useFence(o.fenceSeq);
    const options: StartOptions = {
      fromSeqIfNoCursor: o.fromSeqIfNoCursor ?? 1,
      onRecreated: o.onRecreated ?? 'refuse',
    };
    this.dispatch({ kind: 'start', options });
    const come = () => this.state.phase === 'running' || this.hasEnded(term);
    await this.waiters.until(come, this.settings.startWaitMs ?? START_WAIT_MS);
    const { phase, reason, completed } = this.state;
    if (phase === 'running' && !term.over) return done({ completed });
    if (!this.hasEnded(term)) return unknown(reason?.detail ?? phase);
    const why = reason?.trouble;
    return why === 'fence-lost' || why === 'store-recreated'
      ? refused(why, reason?.detail)
      : refused('stopped', reason?.detail);
  }

  /** Takes nothing more, awaits what is open, writes the cursor a last time; bounded. */
  async stop(): Promise<void> {
    const { term } = this;
    if (term === undefined || term.over) return;
    this.dispatch({ kind: 'stop' });
    const quiet = () => this.state.phase === 'stopped' && this.catchUps.size === 0;
    await this.waiters.until(quiet, this.settings.stopWaitMs ?? STOP_WAIT_MS);
    this.endTerm(term);
  }

  private hasEnded(term: Term): boolean {
    return term.over || term !== this.term || this.state.phase === 'stopped';
  }

  private endTerm(term: Term): void {
    term.over = true;
    this.performer.close();
    if (this.state.phase !== 'stopped') {
      this.state.phase = 'stopped';
      this.notePhase();
    }
    this.waiters.wake();
  }

  /** Highest channel sequence decided so far; `undefined` before the cursor was read. */
  decided(): number | undefined {
    return this.state.decided;
  }

  /** The stored cursor; no entry of a post above it may leave the store. */
  cursor(): { readonly incarnation: string; readonly seq: number } | undefined {
    const { cursor } = this.state;
    return cursor === undefined ? undefined : { incarnation: cursor.incarnation, seq: cursor.seq };
  }

  /** Copies (from, to] of a channel for a member that joined; repeatable after a crash. */
  async catchUp(request: CatchUpRequest): Promise<Outcome<CaughtUp, CatchUpRefusal>> {
    const { term } = this;
    if (term === undefined || this.hasEnded(term)) return refused('stopped');
    const { member, channel } = request;
    const mine: OpenCatchUp = { member, channel, settled: false, running: false };
    this.catchUps.add(mine);
    const ended = () => (mine.settled ? 'settled' : this.hasEnded(term) ? 'stopped' : undefined);
    // Fan-out itself must have passed the range, so that two writers never fill one slot.
    const turn = () =>
      ended() !== undefined ||
      (this.state.phase === 'running' &&
        this.state.completed >= request.to &&
        this.catchUpsRunning() < CATCH_UPS_RUNNING_MAX);
    try {
      const come = await this.waiters.until(turn, this.settings.catchUpWaitMs ?? CATCH_UP_WAIT_MS);
      if (!come) return unknown(`fan-out has not passed ${request.to} yet`);
      const why = ended();
      if (why !== undefined) return refused(why);
      mine.running = true;
      return await this.runCatchUp(request, ended);
    } finally {
      this.catchUps.delete(mine);
      this.waiters.wake();
    }
  }

  private catchUpsRunning(): number {
    let running = 0;
    for (const c of this.catchUps) if (c.running) running++;
    return running;
  }

  private async runCatchUp(
    request: CatchUpRequest,
    ended: () => 'settled' | 'stopped' | undefined,
  ): Promise<Outcome<CaughtUp, CatchUpRefusal>> {
    const { incarnation } = this.state;
    const { source, store, sign } = this.ports;
    const now = await source.state();
    if (now.kind !== 'done') return now;
    if (now.value.incarnation !== incarnation)
      return refused('store-recreated', now.value.incarnation);
    return catchUp(request, {
      prefix: this.settings.prefix,
      incarnation,
      source,
      store,
      ...(sign === undefined ? {} : { sign }),
      ended,
      onStored: (post, storeSeq, signature) => {
        this.dispatch({ kind: 'caught-up', storeSeq });
        const { member, generation } = request;
        const entry = { member, incarnation, seq: post.seq, generation };
        this.performer.tellStored(entry, post, storeSeq, signature);
      },
      onFenceLost: (detail) => this.dispatch({ kind: 'fence-lost', detail }),
    });
  }

  /**
   * Answers when no copy for this member is on its way any more, so that what the directory does
   * not grant now is never written later. With a channel, only that channel's catch-up is ended.
   */
  async settle(member: LifecycleKey, channel?: string): Promise<Outcome<void, 'stopped'>> {
    for (const c of this.catchUps) {
      if (c.member === member && (channel === undefined || c.channel === channel)) c.settled = true;
    }
    this.dispatch({ kind: 'settle', member });
    const quiet = () =>
      openOf(this.state, member) === 0 &&
      ![...this.catchUps].some((c) => c.settled && c.member === member);
    const ended = () => this.term === undefined || this.hasEnded(this.term);
    const waitMs = this.settings.settleWaitMs ?? SETTLE_WAIT_MS;
    await this.waiters.until(() => quiet() || ended(), waitMs);
    // Once ended, another holder may be writing: this one can promise nothing any more.
    if (ended()) return refused('stopped');
    return quiet() ? done(undefined) : unknown('copies of the member are not answered yet');
  }

  /**
   * Every copy that this process learns to be stored. A copy of before this start is told too when
   * it lies above the cursor: an entry may be known to the listener already.
   */
  onStored(listener: (copy: StoredCopy) => void): () => void {
    return this.performer.stored.add(listener);
  }

  onCursor(listener: (cursor: FanOutCursor) => void): () => void {
    return this.performer.cursors.add(listener);
  }

  onEvent(listener: (event: FanOutEvent) => void): () => void {
    return this.performer.events.add(listener);
  }

  status(): FanOutStatus {
    const s = this.state;
    const { stored, cursors, events } = this.performer;
    return {
      phase: s.phase,
      reason: s.reason,
      since: this.since,
      waitsForDirectory: s.phase === 'running' && !s.directoryCurrent,
      cursor: this.cursor(),
      decided: s.decided,
      cursorLag: s.sourcePending + s.waiting.length + s.window.length,
      copiesOpen: s.copiesOpen,
      catchUpsOpen: this.catchUps.size,
      listenerFaults: stored.faults + cursors.faults + events.faults,
      counters: structuredClone(s.counters),
    };
  }

  private dispatch(event: Event): void {
    this.queue.push(event);
    if (this.stepping) return;
    this.stepping = true;
    try {
      this.drainQueue();
    } finally {
      this.stepping = false;
    }
    this.waiters.wake();
  }

  /** Bounded: every event answers a decision, and the limits bound the open decisions. */
  private drainQueue(): void {
    for (let i = 0; i < this.queue.length; i++) {
      const before = this.state.phase;
      const { state, decisions } = step(this.state, this.queue[i] as Event);
      this.state = state;
      if (state.phase !== before) this.notePhase();
      const { term } = this;
      if (term === undefined) continue;
      for (const decision of decisions) {
        this.performer.perform(decision, term);
        if (decision.kind === 'fence-lost') term.over = true;
      }
    }
    this.queue.length = 0;
  }

  private notePhase(): void {
    const { phase, reason } = this.state;
    this.since = this.ports.clock.wallMs();
    this.performer.events.tell({ kind: 'phase', phase, reason });
  }
}
