import type { Outcome, TimerSubject } from '@plane3/protocol';
import type { ArmedSeen, ArmOrder, CheckpointSeen, FiredSeen, RequestFacts } from './model.ts';

/**
 * What the writer asks of its surroundings. Nothing here throws for what can happen in service;
 * every answer comes within a bounded time; a timeout or a lost connection is `unknown`.
 */

/** One request as it was handed over. Exactly one of the three answers is called, once. */
export interface Delivery {
  readonly facts: RequestFacts;
  /** How often it was handed over, this time included: at least 1. */
  readonly deliveries: number;
  /** It is armed, or need not be. A lost answer only brings it again. */
  done(): void;
  /** It comes again, not before `delayMs`. */
  retry(delayMs: number): void;
  /** It never comes again. */
  terminate(reason: string): void;
}

/** `gone`: the stream or the durable is not there any more; the session must be opened anew. */
export type SourceRefusal = 'gone' | 'permission-denied' | 'rejected';

/**
 * The durable `timerw_<s>` on the request stream (wire contract section 4). A request that gets no
 * answer within the acknowledgement wait is handed over again, after any restart of anybody: at
 * least once, until it is answered or ages out. Order is not promised.
 *
 * Not in it: judging. Only what another consumer handed over is dropped here, and counted.
 */
export interface RequestSource {
  /**
   * Hands over at most `countMax` requests as they come, and resolves when there were that many or
   * `waitMs` has passed. At most one pull is open at a time. `done` carries how many there were.
   */
  pull(
    countMax: number,
    waitMs: number,
    onRequest: (d: Delivery) => void,
  ): Promise<Outcome<number, SourceRefusal>>;
  /** Messages that came from elsewhere than our durable, since the session was opened. */
  strays(): number;
}

/**
 * The status row `cp.<endpoint>.<timerId>.status` of the records bucket in the vault, where no
 * agent can write. Leader reads only: a replica that lags would arm what is settled. A row that
 * the broker made out of an answer of its own is `unreadable`.
 */
export interface Checkpoints {
  status(endpoint: string, timerId: string): Promise<CheckpointSeen>;
}

export type ArmRefusal =
  /** Somebody else wrote to the armed subject meanwhile: read again, decide again. */
  'wrong-sequence' | 'store-full' | 'permission-denied' | 'no-stream' | 'rejected';

/**
 * The armed and the fire subject of a timer, in the timer stream (wire contract sections 2 and 7).
 * Reads are the leader's.
 *
 * `arm` is one compare-and-set on the armed subject: of two that name the same sequence at most
 * one is `done`, so one timer never holds two schedules. The stored message fires by itself at its
 * time, or at once if that is past; its body is the fire's body, and nothing else is read for it.
 */
export interface Schedules {
  armed(timer: TimerSubject): Promise<ArmedSeen>;
  lastFire(timer: TimerSubject): Promise<FiredSeen>;
  arm(order: ArmOrder): Promise<Outcome<number, ArmRefusal>>;
  /** Takes away what stands on the armed subject up to and including `seq`; later ones stay. */
  disarm(timer: TimerSubject, seq: number): Promise<Outcome<number, ArmRefusal>>;
}

export type OpenRefusal =
  | 'broker-too-old'
  | 'stream-missing'
  | 'stream-mismatch'
  | 'permission-denied'
  | 'credential'
  | 'transport'
  | 'rejected';

/** One life of the writer's own connections. After `close` nothing of it calls or is called. */
export interface Session {
  readonly requests: RequestSource;
  readonly checkpoints: Checkpoints;
  readonly schedules: Schedules;
  /** Bounded; never throws. */
  close(): Promise<void>;
}

/**
 * Opens connections of the writer's own, checks version and settings of the broker by reading them
 * back, and makes or repairs the durable. `refused`: somebody has to act; `unknown`: time may help.
 */
export interface Sessions {
  open(): Promise<Outcome<Session, OpenRefusal>>;
}

export interface Clock {
  /** Milliseconds since the epoch: deadlines are of that kind. */
  wallMs(): number;
  /** Never goes back and does not step: intervals are of this kind. */
  monotonicMs(): number;
}

export interface Timers {
  /** Calls once; the answer takes it back. Must not keep the host alive. */
  after(ms: number, f: () => void): () => void;
}

/** Facts for the log: one call per change of state or refusal, never per request that went well. */
export type WriterEvent =
  | { readonly event: 'timers.serving' }
  | { readonly event: 'timers.backing-off'; readonly why: string; readonly waitMs: number }
  | { readonly event: 'timers.unavailable'; readonly why: string; readonly waitMs: number }
  | { readonly event: 'timers.stopped' }
  | {
      readonly event: 'timers.refused';
      readonly subject: string;
      readonly reason: string;
      readonly detail: string;
    };

export interface ScheduleWriterPorts {
  readonly sessions: Sessions;
  readonly clock: Clock;
  readonly timers: Timers;
  /** A random number in [0, 1). */
  readonly random: () => number;
  readonly onEvent?: (e: WriterEvent) => void;
}
