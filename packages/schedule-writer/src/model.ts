import type { CheckpointStatus, TimerRequest, TimerSubject } from '@plane3/protocol';

/** What the broker handed over of one request. It comes from agents: hostile until judged. */
export interface RequestFacts {
  /** The subject under which the stream keeps it; the broker checked who may publish there. */
  readonly subject: string;
  readonly headerNames: readonly string[];
  readonly body: Uint8Array;
}

/** A request is wrong by itself; no later attempt can make it right. */
export type RefusalReason =
  | 'subject'
  | 'broker-header'
  | 'schedule-header'
  | 'body'
  | 'timer-id'
  | 'deadline-beyond-limit'
  /** No checkpoint of that name appeared, although the request was looked at several times. */
  | 'no-checkpoint'
  /** The checkpoint never reached the generation that the request names. */
  | 'generation-ahead';

export const REFUSAL_REASONS: readonly RefusalReason[] = [
  'subject',
  'broker-header',
  'schedule-header',
  'body',
  'timer-id',
  'deadline-beyond-limit',
  'no-checkpoint',
  'generation-ahead',
];

export interface Refusal {
  readonly kind: 'refuse';
  readonly reason: RefusalReason;
  readonly detail: string;
}

/** A request that is well formed and names the timer that its subject names. */
export interface JudgedRequest {
  readonly kind: 'request';
  /** With verb `schedule`; target and armed subject are its siblings. */
  readonly timer: TimerSubject;
  readonly request: TimerRequest;
}

/**
 * The authoritative status of a checkpoint, read from the leader. `unreadable`: there is a row and
 * nobody can say what it means; `unknown`: it could not be read at all.
 */
export type CheckpointSeen =
  | { readonly kind: 'status'; readonly status: Readonly<CheckpointStatus> }
  | { readonly kind: 'absent' }
  | { readonly kind: 'unreadable' }
  | { readonly kind: 'unknown'; readonly cause: string };

/** What stands on the armed subject; read from the leader. */
export type ArmedSeen =
  | { readonly kind: 'nothing' }
  | { readonly kind: 'schedule'; readonly seq: number; readonly armed: Armed }
  /** A message that the broker's scheduler does not fire: it switched the timer off. */
  | { readonly kind: 'planted'; readonly seq: number }
  | { readonly kind: 'unknown'; readonly cause: string };

/** The last fire that is stored: its generation, or none. */
export type FiredSeen =
  | { readonly kind: 'none' }
  | { readonly kind: 'fired'; readonly generation: number }
  | { readonly kind: 'unknown'; readonly cause: string };

export interface Armed {
  readonly generation: number;
  /** Milliseconds since the epoch. */
  readonly deadlineMs: number;
}

/** An armed schedule is self-contained: nothing else is needed to fire it, or to read the fire. */
export interface ArmedBody {
  readonly v: 1;
  readonly timerId: string;
  readonly generation: number;
  /** Milliseconds since the epoch. */
  readonly deadline: number;
}

export interface ArmOrder {
  readonly timer: TimerSubject;
  /** When to fire. In the past: at once. */
  readonly atMs: number;
  /** Last sequence of the armed subject; 0: there is nothing on it. */
  readonly expectedSeq: number;
  readonly body: ArmedBody;
}

export type Decision =
  | { readonly kind: 'arm'; readonly order: ArmOrder }
  /** The deadline has passed while nobody was there: armed for now, with the same body. */
  | { readonly kind: 'fire-now'; readonly order: ArmOrder }
  | { readonly kind: 'already-armed' }
  /** This generation has fired before; it fires once. */
  | { readonly kind: 'already-fired' }
  /** A later generation is the current one. */
  | { readonly kind: 'stale' }
  /** Answered, cancelled or expired. What is still armed up to `disarmSeq` is taken away. */
  | { readonly kind: 'settled'; readonly disarmSeq: number }
  | Refusal
  /** `outage`: the same would be so for any request; `request`: it lies in this one's own rows. */
  | { readonly kind: 'retry'; readonly why: string; readonly blame: 'outage' | 'request' };

export interface DecideInput {
  readonly judged: JudgedRequest;
  readonly checkpoint: CheckpointSeen;
  readonly armed: ArmedSeen;
  readonly fired: FiredSeen;
  /** How often the request was handed over, this time included. */
  readonly deliveries: number;
  readonly nowMs: number;
  readonly limits: DecideLimits;
}

export interface DecideLimits {
  /**
   * A deadline further away is refused: the timer stream (31 days) would age it out before it
   * fires. A minute less than that, so that no two clocks decide it.
   */
  readonly deadlineLimitMs: number;
  /** Hand-overs after which a checkpoint that is not there, or not that far, counts as an error. */
  readonly patienceDeliveries: number;
}

export const DECIDE_LIMITS: DecideLimits = {
  deadlineLimitMs: 31 * 86_400_000 - 60_000,
  patienceDeliveries: 6,
};
