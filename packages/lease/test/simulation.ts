import {
  type Decision,
  type FenceEvent,
  type FenceMark,
  type FenceRefusal,
  isTrusted,
  type LeaseEvent,
  type LeaseState,
  nextWakeMs,
  type RowRefusal,
  type StoredRow,
  startFence,
  step,
  stepFence,
  timingOf,
} from '@plane3/lease';
import { done, type Outcome, unknown } from '@plane3/protocol';
import { Agenda } from './sim-agenda.ts';
import { SimBroker } from './sim-broker.ts';
import { Chance } from './sim-chance.ts';
import { newProc, type Proc } from './sim-proc.ts';

/**
 * Rivals for one lease on a simulated broker: the real machines, with requests and answers that get
 * lost, late and out of order, processes that stall and die, and expiry by a clock of the broker's
 * own. The broker and the auditor see everything; the machines see what a machine would.
 */
export interface SimOptions {
  readonly seed: number;
  readonly rivals: number;
  /** The broker's clock leaps: rows may end too early. Only the fence holds then. */
  readonly clockJumps: boolean;
  readonly faultyMs: number;
  readonly calmMs: number;
}

const TTL_MS = 2_000;

export type Tally = Record<string, number>;

export class Simulation {
  readonly violations: string[] = [];
  readonly tally: Tally = {};
  readonly #all = new Map<number, Proc>();
  readonly #slots = new Map<number, Proc>();
  readonly #o: SimOptions;
  readonly #agenda = new Agenda();
  readonly #chances: Chance;
  #nowMs = 0;
  #spawned = 0;
  #faulty = true;
  readonly #broker = new SimBroker(
    {
      nowMs: () => this.#nowMs,
      lateMs: () => (this.#chance(0.1) ? this.#between(0, 4_000) : 0),
      taken: (owner, by) => this.#taken(owner, by),
      removed: (owner, by) => {
        if (owner !== by) this.#wrong(`${by} removed the row of ${owner}`);
      },
      changed: (row, revision) => this.#notify(row, revision),
    },
    TTL_MS,
  );

  constructor(o: SimOptions) {
    this.#o = o;
    this.#chances = new Chance(o.seed);
    for (let i = 0; i < o.rivals; i++) this.#at(this.#between(0, 500), () => this.#spawn(i));
    this.#at(100, () => this.#mischief());
    this.#at(50, () => this.#work());
  }

  run(): void {
    const endMs = this.#o.faultyMs + this.#o.calmMs;
    this.#at(this.#o.faultyMs, () => {
      this.#faulty = false;
    });
    for (;;) {
      const next = this.#agenda.next();
      if (next === undefined || next.atMs > endMs) return;
      this.#nowMs = next.atMs;
      next.f();
      this.#audit();
    }
  }

  get #procs(): Proc[] {
    return [...this.#slots.values()];
  }

  /** Who could write now, fence included. */
  holders(): string[] {
    return this.#procs
      .filter((p) => this.#trusted(p) && p.fenceSeq !== undefined)
      .map((p) => p.name);
  }

  // Time and chance.

  #at(ms: number, f: () => void): void {
    this.#agenda.add(this.#nowMs + ms, f);
  }

  #between(min: number, max: number): number {
    return this.#chances.between(min, max);
  }

  #chance(p: number): boolean {
    return this.#faulty && this.#chances.next() < p;
  }

  #count(what: string): void {
    this.tally[what] = (this.tally[what] ?? 0) + 1;
  }

  #wrong(what: string): void {
    this.violations.push(`${Math.round(this.#nowMs)} ms: ${what}`);
  }

  // Processes.

  #spawn(slot: number): void {
    const n = ++this.#spawned;
    const p = newProc(slot, n, this.#between(-1e6, 1e6), timingOf(TTL_MS));
    this.#slots.set(slot, p);
    this.#all.set(p.pid, p);
    this.#feed(p, { kind: 'acquire', waitMs: this.#between(0, 6_000) });
  }

  #end(p: Proc): void {
    if (p.ended) return;
    p.ended = true;
    p.fenceSeq = undefined;
    const slot = Number(p.name.slice(1));
    this.#at(this.#between(100, 1_500), () => this.#spawn(slot));
  }

  #mischief(): void {
    const p = this.#procs[Math.floor(this.#chances.next() * this.#slots.size)];
    if (p !== undefined && !p.ended) {
      if (this.#chance(0.06)) {
        this.#count('killed');
        p.dead = true;
        this.#end(p);
      } else if (this.#chance(0.1)) {
        this.#count('stalled');
        p.stalledUntilMs = this.#nowMs + this.#between(100, 5_000);
      } else if (this.#chance(0.11)) {
        this.#count('cut');
        p.cutUntilMs = this.#nowMs + this.#between(100, 4_000);
      } else if (this.#chance(0.05)) {
        this.#count('release-asked');
        p.fenceSeq = undefined;
        this.#feed(p, { kind: 'release' });
      }
    }
    if (this.#o.clockJumps && this.#chance(0.05) && this.#broker.expire())
      this.#count('clock-jumped');
    this.#at(this.#between(50, 250), () => this.#mischief());
  }

  /** Every holder writes behind its fence all the time; some of it lies in a socket for long. */
  #work(): void {
    for (const p of this.#procs) {
      const seq = p.fenceSeq;
      if (seq === undefined || p.ended || p.stalledUntilMs > this.#nowMs || !this.#trusted(p))
        continue;
      const { incarnation, term } = p;
      this.#at(this.#delay(), () => {
        if (!this.#broker.store(seq, { incarnation, term })) this.#count('fenced-off');
      });
    }
    this.#at(40, () => this.#work());
  }

  #trusted(p: Proc): boolean {
    return !p.dead && !p.ended && isTrusted(p.state, this.#nowMs + p.offsetMs);
  }

  /** Delivers an event when the process runs, in order of arrival. */
  #deliver(p: Proc, event: Stampless): void {
    if (p.dead) return;
    const stallMs = p.stalledUntilMs - this.#nowMs;
    if (stallMs > 0) this.#at(stallMs, () => this.#deliver(p, event));
    else this.#feed(p, event);
  }

  #feed(p: Proc, event: Stampless): void {
    if (p.dead) return;
    const before = p.state.phase;
    const stamped = { ...event, nowMs: this.#nowMs + p.offsetMs } as LeaseEvent;
    const { state, decisions } = step(p.state, stamped);
    this.#check(before, state, decisions);
    p.state = state;
    for (const d of decisions) this.#act(p, d);
    this.#settleFence(p, false);
    const wakeMs = nextWakeMs(p.state);
    if (wakeMs !== undefined)
      this.#at(Math.max(1, wakeMs - p.offsetMs - this.#nowMs), () =>
        this.#deliver(p, { kind: 'tick' }),
      );
  }

  #check(before: string, state: LeaseState, decisions: readonly Decision[]): void {
    const after = state.phase;
    if (before === 'held' && after !== 'held' && after !== 'releasing')
      if (decisions[0]?.kind !== 'quiesce') this.#wrong(`left held without quiescing first`);
    if (after === 'doubting' && !state.quiesced)
      for (const d of decisions)
        if (d.kind !== 'quiesce' && d.kind !== 'renewed') this.#wrong(`${d.kind} before quiesced`);
  }

  #act(p: Proc, d: Decision): void {
    switch (d.kind) {
      case 'read-row':
        this.#call(p, () => done(this.#broker.read()), 'read', d.request);
        break;
      case 'write-row':
        this.#call(p, () => this.#broker.write(d.row, d.expectedRevision), 'written', d.request);
        break;
      case 'remove-row':
        this.#call(p, () => this.#broker.remove(p.incarnation, d.revision), 'written', d.request);
        break;
      case 'judge-host': {
        const other = this.#all.get(d.host.pid);
        const here = other?.host === p.host;
        const verdict = !here ? 'unknown' : other.dead || other.ended ? 'dead' : 'alive';
        this.#at(1, () => this.#deliver(p, { kind: 'judged', request: d.request, verdict }));
        break;
      }
      case 'quiesce':
        this.#count(`doubt-${d.reason}`);
        p.fenceSeq = undefined;
        this.#at(this.#between(0, 200), () => this.#deliver(p, { kind: 'quiesced' }));
        break;
      case 'held':
      case 'regained':
        this.#count(`${d.kind}-${d.how}`);
        this.#startFence(p, d.revision);
        break;
      case 'renewed':
        this.#settleFence(p, d.attemptMs >= p.fencingSinceMs);
        break;
      case 'lost':
        this.#count(`lost-${d.reason}`);
        this.#feed(p, { kind: 'release' });
        break;
      case 'refused':
        this.#count(`refused-${d.refusal.kind}`);
        if (d.refusal.kind !== 'cancelled') this.#feed(p, { kind: 'release' });
        break;
      case 'released':
        this.#count(d.rowLeft ? 'released-row-left' : 'released');
        this.#end(p);
    }
  }

  // The fence rule, run like the runtime runs it.

  #startFence(p: Proc, term: number): void {
    p.term = term;
    p.fenceSeq = undefined;
    const mark: FenceMark = { incarnation: p.incarnation, leaseRevision: term, at: 0 };
    p.fencing = { run: p.fencing.run + 1, step: startFence(mark), waiting: undefined };
    this.#driveFence(p);
  }

  #driveFence(p: Proc): void {
    const { run, step: at } = p.fencing;
    if (at === undefined) return;
    const d = at.decision;
    const go = (e: FenceEvent): void => {
      if (p.dead || p.fencing.run !== run || p.fencing.step === undefined) return;
      p.fencing.step = stepFence(p.fencing.step.state, e);
      this.#driveFence(p);
    };
    if (d.kind === 'read')
      this.#fenceCall(
        p,
        () => done(this.#broker.fence),
        (answer) => go({ kind: 'read', answer }),
      );
    else if (d.kind === 'write')
      this.#fenceCall(
        p,
        () => this.#broker.writeFence(d.mark, d.expectedSeq),
        (answer) => go({ kind: 'written', answer }),
      );
    else if (d.kind === 'refused') {
      this.#count(`fence-refused-${d.reason}`);
      p.fencing.step = undefined;
      this.#feed(p, { kind: 'release' });
    } else {
      p.fencing.waiting = d.kind === 'prove' ? 'prove' : 'last';
      p.fencingSinceMs = this.#nowMs + p.offsetMs;
      this.#feed(p, { kind: 'renew', ready: d.kind !== 'prove' });
    }
  }

  #settleFence(p: Proc, renewed: boolean): void {
    const { waiting, step: at } = p.fencing;
    if (waiting === undefined || at === undefined) return;
    if (!renewed && p.state.phase === 'held') return;
    p.fencing.waiting = undefined;
    if (waiting === 'prove') {
      this.#count(renewed ? 'fence-renumbered' : 'fence-stale');
      p.fencing.step = stepFence(at.state, { kind: 'proved', held: renewed });
      this.#driveFence(p);
    } else {
      p.fencing.step = undefined;
      if (renewed) p.fenceSeq = at.decision.kind === 'established' ? at.decision.seq : undefined;
    }
  }

  #fenceCall<T>(
    p: Proc,
    effect: () => Outcome<T, FenceRefusal>,
    answered: (o: Outcome<T, FenceRefusal>) => void,
  ): void {
    let open = true;
    const once = (o: Outcome<T, FenceRefusal>): void => {
      if (!open) return;
      const stallMs = p.stalledUntilMs - this.#nowMs;
      if (stallMs > 0) this.#at(stallMs, () => once(o));
      else {
        open = false;
        answered(o);
      }
    };
    this.#travel(p, effect, once);
    this.#at(p.state.timing.callTimeoutMs, () => once(unknown('timeout')));
  }

  // The network and the broker.

  #delay(): number {
    if (this.#chance(0.05)) return this.#between(500, 6_000);
    return this.#between(0.5, 40);
  }

  #travel<T>(p: Proc, effect: () => T, answered: (answer: T) => void): void {
    const cut = (): boolean => p.cutUntilMs > this.#nowMs || this.#chance(0.04);
    if (cut()) return;
    this.#at(this.#delay(), () => {
      const answer = effect();
      if (!cut()) this.#at(this.#delay(), () => answered(answer));
    });
  }

  /** Both the answer and the timeout arrive; the machine takes whichever is first. */
  #call<T>(
    p: Proc,
    effect: () => Outcome<T, RowRefusal>,
    kind: 'read' | 'written',
    request: number,
  ): void {
    const arrive = (answer: Outcome<T, RowRefusal>): void =>
      this.#deliver(p, { kind, request, answer } as Stampless);
    this.#travel(p, effect, arrive);
    this.#at(p.state.timing.callTimeoutMs, () => arrive(unknown('timeout')));
  }

  #taken(owner: string, by: string): void {
    this.#count('took-over');
    const o = [...this.#all.values()].find((x) => x.incarnation === owner);
    if (o !== undefined && this.#trusted(o) && !this.#o.clockJumps)
      this.#wrong(`${by} took the row of trusted ${owner}`);
  }

  /** The watch of each process, which may miss a change. */
  #notify(row: StoredRow | undefined, revision: number): void {
    const removed = row === undefined;
    for (const p of this.#procs)
      if (!p.ended && !this.#chance(0.2))
        this.#at(this.#delay(), () =>
          this.#deliver(p, { kind: 'noticed', revision, incarnation: row?.incarnation, removed }),
        );
  }

  #audit(): void {
    const trusted = this.#procs.filter((p) => this.#trusted(p));
    if (trusted.length > 1) {
      this.#count('two-trusted');
      if (!this.#o.clockJumps)
        this.#wrong(`trusted at once: ${trusted.map((p) => p.incarnation).join(', ')}`);
    }
    const [a, b] = this.#broker.stored.slice(-2);
    if (a !== undefined && b !== undefined && b.term < a.term)
      this.#wrong(`${b.incarnation} of term ${b.term} stored after ${a.incarnation} of ${a.term}`);
  }
}

type Omitted<E> = E extends unknown ? Omit<E, 'nowMs'> : never;
type Stampless = Omitted<LeaseEvent>;
