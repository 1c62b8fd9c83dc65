import type { ChannelMessage, DeliveryClass, Outcome } from '@plane3/protocol';

export type ConfirmRefusal = 'binding-lost' | 'permission-denied' | 'offline';

/** A post as the host gets it. It counts as seen only once `confirm` answered `done`. */
export interface Item {
  readonly kind: 'durable' | 'live';
  readonly channel: string;
  /** Sequence in the channel stream; a live copy bears none. */
  readonly seq: number | undefined;
  readonly id: string;
  /** Principal of the sender, vouched for by the subject. */
  readonly from: string;
  readonly fromName: string;
  readonly ts: number;
  /** The text parts, one a line. */
  readonly text: string;
  /** The value of the data part; of several, their values in order; `undefined` without one. */
  readonly data: unknown;
  /** It was handed over before, to this process or to another one of this lifecycle. */
  readonly redelivered: boolean;
  readonly message: ChannelMessage;
  /**
   * The host has surfaced it. Acknowledges the durable copy, now or when it comes. `unknown`: the
   * acknowledgement may not have arrived; the copy then comes again and is acknowledged unseen.
   */
  confirm(): Promise<Outcome<void, ConfirmRefusal>>;
}

/** What a member must be told, besides posts. */
export type Notice =
  /** The connection was away: posts of a channel without a backstop may be missing. */
  | {
      readonly kind: 'notice';
      readonly reason: 'live-gap';
      readonly channel: string;
      readonly awayMs: number;
    }
  /** The buffer was full: this many live copies were dropped. */
  | {
      readonly kind: 'notice';
      readonly reason: 'live-overflow';
      readonly channel: string;
      readonly count: number;
    };

export interface ReceiveOptions {
  /** Items at most; default 64, at most {@link RECEIVE_ENTRIES_MAX}. */
  readonly maxEntries?: number;
  /** How long to wait when there is nothing; default 0, at most {@link RECEIVE_WAIT_MAX_MS}. */
  readonly waitMs?: number;
  /** Shows without taking: everything is given back at once and comes again. */
  readonly peek?: boolean;
}
export const RECEIVE_ENTRIES_MAX = 256;
export const RECEIVE_WAIT_MAX_MS = 600_000;

export interface Received {
  readonly items: readonly Item[];
  readonly notices: readonly Notice[];
  /**
   * `answered`: the daemon answered for this read and the hand-over durable was read to its end, so
   * no item means no mail. `unknown`: one of both did not answer, and no item means nothing.
   */
  readonly mail: 'answered' | 'unknown';
  readonly reason: string | undefined;
  /** Entries that wait beyond those returned, as far as they are handed over. */
  readonly more: number;
}

/** What a sender can rely on once the post is stored. */
export type Guarantee =
  /** Stored, and kept for each durable member of the channel until it has seen it. */
  | 'durable'
  /** Stored for history; who listens now gets it. */
  | 'live-only'
  /** Stored; nobody could say which class the channel is of. */
  | 'unknown';

export interface Receipt {
  readonly channel: string;
  readonly seq: number;
  readonly id: string;
  readonly class: DeliveryClass | 'unknown';
  readonly guarantee: Guarantee;
  /** The broker had this id already: the post was stored by an earlier try. */
  readonly duplicate: boolean;
}

export interface PostOptions {
  readonly mentions?: readonly string[];
  readonly data?: unknown;
  readonly replyTo?: string;
  readonly contextId?: string;
  /** To repeat a post whose first try ended `unknown`; default a fresh one. */
  readonly id?: string;
}

export interface LeaveReport {
  readonly channel: string;
  readonly leaveCursor: number;
  /** Entries of the closed membership that will never surface. */
  readonly disposed: number;
  readonly alreadyLeft: boolean;
}

/** An answered question about the daemon, with its age. */
export interface Health {
  readonly state: 'serving' | 'degraded' | 'unknown';
  readonly detail: string;
  readonly incarnation: string | undefined;
  /** Milliseconds since the epoch. */
  readonly askedAt: number;
}

export interface Counts {
  live: number;
  durable: number;
  merged: number;
  acknowledgedAgain: number;
  liveDropped: number;
  liveInvalid: number;
  framesTerminated: number;
  afterLeave: number;
  presenceFailed: number;
}
