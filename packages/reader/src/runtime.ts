import { done, type LifecycleKey, type Outcome, refused, unknown } from '@plane3/protocol';
import { type Counters, newCounters } from './counters.ts';
import { pause, type ReaderEvent, repeatDelayMs } from './desk.ts';
import { isReady } from './machine.ts';
import type { MemberState, StoredEntry } from './model.ts';
import type { ReaderPorts, StoreRefusal } from './ports.ts';
import type { Verdict } from './release-policy.ts';
import { type ReaderSettings, settingsOf } from './settings.ts';
import { ReaderTerm } from './term.ts';
import {
  countPending,
  type Disposing,
  disposeOf,
  type EntryState,
  isMeant,
  type PendingCounts,
  stateOf,
  walk,
} from './walking.ts';

/** How often {@link Reader.whenHandedOver} looks; one hand-over takes about this long. */
const HAND_OVER_LOOK_MS = 5;

const isQuiet = (s: MemberState): boolean =>
  s.issuing === 0 &&
  s.reading === undefined &&
  s.holds === 0 &&
  !isReady(s) &&
  (s.queue.length > 0 || s.atEnd || s.retryAtMs !== undefined);

export type ReaderRefusal = StoreRefusal | 'not-started' | 'already-started';

export interface ReaderStatus {
  readonly phase: 'stopped' | 'starting' | 'serving' | 'ended';
  readonly attached: number;
  readonly lingering: number;
  /** The hand-over stream was not there at the last look: nothing is handed over, nothing is lost. */
  readonly handOverMissing: boolean;
  /** Copies within reach of members now. */
  readonly handedOver: number;
  readonly openPublishes: number;
  /** Confirmed or disposed of, waiting for the fan-out cursor or for an answer. */
  readonly leavingParked: number;
  readonly counters: Counters;
}

export interface Explanation {
  readonly entryId: string;
  readonly storeSeq: number;
  readonly channel: string;
  readonly state: EntryState;
  /** The release rule's answer at this moment. */
  readonly verdict: Verdict;
}

/**
 * The trusted reader. Releases a pending entry only to a member that may read it now and is
 * there to take it; keeps it until that member confirms.
 */
export class Reader {
  readonly #ports: ReaderPorts;
  readonly #settings: ReaderSettings;
  readonly #counters = newCounters();
  readonly #listeners = new Set<(event: ReaderEvent) => void>();
  /** Retractions that a revision of the rights rows has caused and that are not through yet. */
  readonly #settling = new Map<Promise<unknown>, number>();
  #term: ReaderTerm | undefined;
  #phase: ReaderStatus['phase'] = 'stopped';

  /** @throws Plane3Error `settings-invalid` */
  constructor(ports: ReaderPorts, settings: Partial<ReaderSettings> = {}) {
    this.#ports = ports;
    this.#settings = settingsOf(settings);
  }

  onEvent(listener: (event: ReaderEvent) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * Begins a term under a fence just written. Answers when what an earlier daemon handed over is
   * adopted, confirmed or taken back, and members are being served. After the loss of the fence
   * or `stop` it may be started again with a new one.
   */
  async start(o: {
    readonly fenceSeq: number;
    /** Of the daemon, `[A-Za-z0-9_-]+`; part of every copy's id. */
    readonly incarnation: string;
  }): Promise<Outcome<void, ReaderRefusal>> {
    if (this.#phase === 'starting' || this.#phase === 'serving') return refused('already-started');
    this.#phase = 'starting';
    this.#ports.handOver.useFence(o.fenceSeq);
    const term = new ReaderTerm({
      ports: this.#ports,
      settings: this.#settings,
      counters: this.#counters,
      incarnation: o.incarnation,
      emit: (event) => this.#emit(term, event),
    });
    this.#term = term;
    const opened = await term.open();
    if (opened.kind !== 'done') {
      term.end();
      if (this.#term === term) this.#phase = 'stopped';
    } else if (this.#term === term && !term.ended) this.#phase = 'serving';
    return opened;
  }

  /**
   * Stops issuing, resolves what is outstanding, takes unconfirmed copies back, within the bound
   * of `stopMs`; past it the copies stay for the next daemon. Answers how many were taken back.
   * `retract: false` is for a holder in doubt: what it would purge may be its successor's by now.
   */
  async stop(o: { readonly retract?: boolean } = {}): Promise<number> {
    const term = this.#term;
    if (term === undefined) return 0;
    this.#phase = 'stopped';
    this.#term = undefined;
    term.quiesce();
    if (o.retract === false) {
      term.end();
      return 0;
    }
    const deadlineMs = term.nowMs() + this.#settings.stopMs;
    let count = 0;
    const all = [...term.desks.values()].map(async (desk) => {
      const o = await term.recaller.recall(desk, () => true, 'stopped', this.#settings.stopMs);
      if (o.kind === 'done') count += o.value;
    });
    let cancel: () => void = () => {};
    const late = new Promise<void>((ok) => {
      cancel = this.#ports.timers.after(Math.max(1, deadlineMs - term.nowMs()), ok);
    });
    await Promise.race([Promise.all(all), late]);
    cancel();
    term.end();
    return count;
  }

  /** A copy that this process has just stored: handed over from memory where its turn allows it. */
  noteStored(entry: StoredEntry): void {
    if (this.#term?.ready === true) this.#term.noteStored(entry);
  }

  /** The fan-out cursor moved, or a membership was activated. */
  progressed(): void {
    if (this.#term?.ready === true) this.#term.leaver.retry();
  }

  /** As an attachment port would tell it; `until` in ms from now. */
  attached(member: LifecycleKey, o: { readonly forMs: number }): void {
    this.#term?.attachmentNews({ kind: 'present', member, forMs: o.forMs });
  }

  detached(member: LifecycleKey): void {
    this.#term?.attachmentNews({ kind: 'absent', member });
  }

  /**
   * Waits until nothing more can be handed over to an attached member at this moment (its store
   * is read to the end, or its window is full), and answers how many copies wait for it.
   */
  async whenHandedOver(
    member: LifecycleKey,
    waitMs: number,
  ): Promise<Outcome<number, ReaderRefusal>> {
    const term = this.#serving();
    if (term === undefined) return refused('not-started');
    const deadlineMs = term.nowMs() + waitMs;
    while (!term.ended && term.nowMs() < deadlineMs) {
      const state = term.desks.get(member)?.state;
      if (state !== undefined && isQuiet(state)) return done(state.byCopy.size);
      await pause(term, HAND_OVER_LOOK_MS);
    }
    return unknown('what waits was not handed over in time');
  }

  /**
   * Takes a member's unconfirmed copies back, of one channel or all; answers how many, only after
   * they are proved gone. What is still allowed is handed over again later.
   */
  async retract(
    member: LifecycleKey,
    o: { readonly channel?: string } = {},
  ): Promise<Outcome<number, ReaderRefusal>> {
    const term = this.#serving();
    if (term === undefined) return refused('not-started');
    const desk = term.desks.get(member);
    if (desk === undefined) return done(0);
    const select = (e: { channel: string }): boolean =>
      o.channel === undefined || e.channel === o.channel;
    return term.recaller.recall(desk, select, 'asked');
  }

  /**
   * Takes back and removes the meant entries. To be called when fan-out has settled: afterwards
   * nothing of them surfaces and the count is final. Repeating it is harmless.
   */
  async dispose(o: Disposing): Promise<Outcome<number, ReaderRefusal>> {
    const term = this.#serving();
    if (term === undefined) return refused('not-started');
    const bar = isMeant(o);
    term.barred.set(bar, o.reason);
    try {
      const desk = term.desks.get(o.member);
      if (desk !== undefined) {
        const back = await term.recaller.recall(desk, bar, 'asked');
        if (back.kind !== 'done') return back;
      }
      return await disposeOf(term, term.leaver, o);
    } finally {
      term.barred.delete(bar);
    }
  }

  /**
   * The rights row of a member is another one: what it may read no more is taken back before this
   * resolves. `revision` is the rights bucket's, for `settledTo`.
   */
  rightsChanged(member: LifecycleKey, revision = 0): Promise<void> {
    const work = this.#rejudge(member).finally(() => this.#settling.delete(work));
    this.#settling.set(work, revision);
    return work;
  }

  /** A membership of the member was opened, activated or closed. */
  membershipChanged(member: LifecycleKey): Promise<void> {
    return this.#rejudge(member);
  }

  /** Whether all that `rightsChanged` was told up to `revision` took effect within the time. */
  async settledTo(revision: number, waitMs: number): Promise<boolean> {
    const open = [...this.#settling].filter(([, r]) => r <= revision).map(([work]) => work);
    if (open.length === 0) return this.#serving() !== undefined;
    let cancel: () => void = () => {};
    const late = new Promise<false>((ok) => {
      cancel = this.#ports.timers.after(waitMs, () => ok(false));
    });
    const settled = await Promise.race([Promise.all(open).then(() => true), late]);
    cancel();
    return settled && this.#serving() !== undefined;
  }

  /** What the member is owed, counted in the store itself. */
  async pendingOf(member: LifecycleKey): Promise<Outcome<PendingCounts, ReaderRefusal>> {
    const term = this.#serving();
    return term === undefined ? refused('not-started') : countPending(term, member);
  }

  /** Why an entry is where it is; `undefined`: the member's store does not have it. */
  async explain(
    member: LifecycleKey,
    entryId: string,
  ): Promise<Outcome<Explanation | undefined, ReaderRefusal>> {
    const term = this.#serving();
    if (term === undefined) return refused('not-started');
    let found: Explanation | undefined;
    const o = await walk(term, member, (e) => {
      if (e.entryId !== entryId) return 'go-on';
      const { storeSeq, channel } = e;
      found = { entryId, storeSeq, channel, state: stateOf(term, e), verdict: term.judge(e) };
      return 'stop';
    });
    return o.kind === 'done' ? done(found) : o;
  }

  status(): ReaderStatus {
    const term = this.#term;
    const count = { attached: 0, lingering: 0, handedOver: 0 };
    for (const { state } of term?.desks.values() ?? []) {
      if (state.attachment === 'attached') count.attached++;
      if (state.attachment === 'lingering') count.lingering++;
      count.handedOver += state.byCopy.size;
    }
    return {
      phase: this.#phase,
      handOverMissing: term?.handOverMissing ?? false,
      ...count,
      openPublishes: term?.issuer.open ?? 0,
      leavingParked: term?.leaver.parked ?? 0,
      counters: structuredClone(this.#counters),
    };
  }

  #serving(): ReaderTerm | undefined {
    return this.#phase === 'serving' ? this.#term : undefined;
  }

  /** Until it is through or the term is over: whoever waits has a bound of its own. */
  async #rejudge(member: LifecycleKey): Promise<void> {
    const term = this.#term;
    const desk = term?.desks.get(member);
    if (term === undefined || desk === undefined) return;
    for (let n = 0; !term.ended; n++) {
      term.tell(desk, { kind: 'rejudge', nowMs: term.nowMs() });
      const o = await desk.recalls;
      if (o.kind === 'done') return;
      await pause(term, repeatDelayMs(n));
    }
  }

  #emit(term: ReaderTerm, event: ReaderEvent): void {
    if (this.#term === term && term.ended) this.#phase = 'ended';
    for (const f of this.#listeners) f(event);
  }
}
