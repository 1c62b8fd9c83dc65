import { type Outcome, unknown } from '@plane3/protocol';
import { Counters, type RefusedRequest, type WriterCounts } from './counters.ts';
import {
  type FailureKind,
  initial,
  SUPERVISOR_SETTINGS,
  type SupervisorDecision,
  type SupervisorEvent,
  type SupervisorSettings,
  type SupervisorState,
  step,
} from './machine.ts';
import { DECIDE_LIMITS, type DecideLimits } from './model.ts';
import type { OpenRefusal, ScheduleWriterPorts, Session, WriterEvent } from './ports.ts';
import { Pump, type PumpSettings } from './pump.ts';

export interface ScheduleWriterSettings {
  /** `cotal.<space token>`. */
  readonly prefix: string;
  readonly concurrencyMax?: number;
  readonly pullWaitMs?: number;
  readonly retryMsMin?: number;
  readonly retryMsMax?: number;
  readonly limits?: DecideLimits;
  readonly supervisor?: SupervisorSettings;
  /** How long `stop` waits for requests that are being armed. */
  readonly stopGraceMs?: number;
}

const CONCURRENCY_MAX = 256;
const PULL_WAIT_MS = 5_000;
const RETRY_MS_MIN = 250;
const RETRY_MS_MAX = 30_000;
const STOP_GRACE_MS = 500;

export type WriterStateName = 'stopped' | 'opening' | 'serving' | 'backing-off' | 'unavailable';

export interface WriterStatus {
  readonly state: WriterStateName;
  /** Of the last failure, while it is not serving. */
  readonly why?: string;
  /** When it is tried again; milliseconds since the epoch. */
  readonly untilMs?: number;
  /** Serving since; milliseconds since the epoch. */
  readonly sinceMs?: number;
  /** Failures since it last served for a sustained time. */
  readonly failures: number;
  readonly inFlight: number;
  readonly counts: WriterCounts;
  readonly refusals: readonly RefusedRequest[];
}

interface Life {
  readonly session: Session;
  readonly pump: Pump;
}

/**
 * The standing pump from timer requests to armed broker schedules, under a supervisor of its own.
 * Nothing that happens to it reaches the host: `start` and `status` never throw, `stop` never
 * rejects and is bounded, and no promise of it is left unhandled.
 */
export class ScheduleWriter {
  readonly #ports: ScheduleWriterPorts;
  readonly #prefix: string;
  readonly #pump: PumpSettings;
  readonly #supervisor: SupervisorSettings;
  readonly #stopGraceMs: number;
  readonly #counters: Counters;
  #state: SupervisorState = initial();
  #life: Life | undefined;
  /** Of the current attempt; what belongs to an earlier one is closed and ignored. */
  #epoch = 0;
  #cancelWait: () => void = () => {};
  #ending: Promise<void> = Promise.resolve();
  #running: Promise<void> = Promise.resolve();
  #lastWhy: string | undefined;

  constructor(ports: ScheduleWriterPorts, settings: ScheduleWriterSettings) {
    this.#ports = ports;
    this.#prefix = settings.prefix;
    this.#pump = {
      concurrencyMax: settings.concurrencyMax ?? CONCURRENCY_MAX,
      pullWaitMs: settings.pullWaitMs ?? PULL_WAIT_MS,
      retryMsMin: settings.retryMsMin ?? RETRY_MS_MIN,
      retryMsMax: settings.retryMsMax ?? RETRY_MS_MAX,
      limits: settings.limits ?? DECIDE_LIMITS,
    };
    this.#supervisor = settings.supervisor ?? SUPERVISOR_SETTINGS;
    this.#stopGraceMs = settings.stopGraceMs ?? STOP_GRACE_MS;
    this.#counters = new Counters((e) => this.#emit(e));
  }

  /** Answers at once; the writer comes up, or says in its status why not. */
  start(): void {
    this.#apply({ kind: 'start' });
  }

  /** What was not answered by then is handed over again to the next writer. Idempotent. */
  async stop(): Promise<void> {
    const wasStopped = this.#state.kind === 'stopped';
    this.#apply({ kind: 'stop' });
    await this.#ending;
    // An attempt that was still opening closes what it opened.
    await this.#atMost(this.#stopGraceMs, this.#running);
    if (!wasStopped) this.#emit({ event: 'timers.stopped' });
  }

  status(): WriterStatus {
    const s = this.#state;
    const wallOf = (monotonicMs: number): number =>
      Math.round(this.#ports.clock.wallMs() + monotonicMs - this.#ports.clock.monotonicMs());
    return {
      state: stateName(s),
      ...(s.kind === 'waiting' ? { why: s.why, untilMs: wallOf(s.untilMs) } : {}),
      ...(s.kind === 'opening' && this.#lastWhy !== undefined ? { why: this.#lastWhy } : {}),
      ...(s.kind === 'serving' ? { sinceMs: wallOf(s.sinceMs) } : {}),
      failures: s.failures,
      inFlight: this.#life?.pump.inFlight ?? 0,
      counts: this.#counters.counts(),
      refusals: this.#counters.refusals(),
    };
  }

  #apply(event: SupervisorEvent): void {
    const { state, decisions } = step(this.#state, event, this.#supervisor);
    this.#state = state;
    for (const d of decisions) this.#perform(d);
  }

  #perform(d: SupervisorDecision): void {
    switch (d.kind) {
      case 'open':
        this.#running = this.#live(++this.#epoch);
        return;
      case 'close':
        this.#epoch++;
        this.#cancelWait();
        this.#ending = this.#end();
        return;
      case 'wait':
        this.#cancelWait = this.#ports.timers.after(d.waitMs, () =>
          this.#apply({ kind: 'waited' }),
        );
        this.#reportWait(d.waitMs);
        return;
    }
  }

  /** One attempt, from opening to its failure. Never rejects. */
  async #live(epoch: number): Promise<void> {
    try {
      await this.#ending;
      if (epoch !== this.#epoch) return;
      const opened = await this.#open();
      if (opened.kind !== 'done') return this.#failed(epoch, failureOf(opened), whyOf(opened));
      if (epoch !== this.#epoch) return await opened.value.close();
      const pump = new Pump({
        prefix: this.#prefix,
        session: opened.value,
        clock: this.#ports.clock,
        counters: this.#counters,
        settings: this.#pump,
      });
      this.#life = { session: opened.value, pump };
      this.#apply({ kind: 'opened', nowMs: this.#ports.clock.monotonicMs() });
      this.#lastWhy = undefined;
      this.#emit({ event: 'timers.serving' });
      const end = await pump.run();
      if (end !== undefined) this.#failed(epoch, end.failure, end.why);
    } catch (e) {
      this.#counters.add('defects');
      this.#failed(epoch, 'fault', `defect: ${e instanceof Error ? e.message : String(e)}`);
    }
  }

  async #open(): Promise<Outcome<Session, OpenRefusal>> {
    try {
      return await this.#ports.sessions.open();
    } catch (e) {
      return unknown(e instanceof Error ? e.message : String(e));
    }
  }

  #failed(epoch: number, failure: FailureKind, why: string): void {
    if (epoch !== this.#epoch) return;
    const nowMs = this.#ports.clock.monotonicMs();
    this.#apply({ kind: 'failed', failure, why, nowMs, jitter: this.#ports.random() });
  }

  /** Bounded: what is being armed gets its grace, then the connections go. */
  async #end(): Promise<void> {
    const life = this.#life;
    this.#life = undefined;
    if (life === undefined) return;
    try {
      await this.#atMost(this.#stopGraceMs, life.pump.stop());
      await life.session.close();
    } catch {
      this.#counters.add('defects');
    }
  }

  async #atMost(ms: number, what: Promise<void>): Promise<void> {
    let cancel: () => void = () => {};
    const late = new Promise<void>((ok) => {
      cancel = this.#ports.timers.after(ms, ok);
    });
    await Promise.race([what, late]);
    cancel();
  }

  /** One line per reason: the same one again is only a number in the status. */
  #reportWait(waitMs: number): void {
    if (this.#state.kind !== 'waiting') return;
    const { why, failure } = this.#state;
    if (why === this.#lastWhy) return;
    this.#lastWhy = why;
    const event = failure === 'fault' ? 'timers.backing-off' : 'timers.unavailable';
    this.#emit({ event, why, waitMs });
  }

  #emit(e: WriterEvent): void {
    try {
      this.#ports.onEvent?.(e);
    } catch {
      // A log that fails is the host's matter; the pump goes on.
      this.#counters.add('defects');
    }
  }
}

function stateName(s: SupervisorState): WriterStateName {
  if (s.kind !== 'waiting') return s.kind;
  return s.failure === 'fault' ? 'backing-off' : 'unavailable';
}

type NotOpened = Exclude<Outcome<Session, OpenRefusal>, { kind: 'done' }>;

const failureOf = (o: NotOpened): FailureKind => (o.kind === 'unknown' ? 'fault' : 'unavailable');
const whyOf = (o: NotOpened): string =>
  o.kind === 'unknown' ? o.cause : o.detail === '' ? o.reason : `${o.reason}: ${o.detail}`;
