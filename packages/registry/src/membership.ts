import type { LifecycleKey } from '@plane3/protocol';

/** Where a join cursor comes from: claimed by the client and accepted, or the frontier. */
export type CursorSource = 'client' | 'frontier';

/**
 * - `joining`: recorded, so that every post decided from now on is owed; what lies between the
 *   join cursor and the fence is still being copied. No copy of it may leave the store yet.
 * - `active`: every owed copy is proved stored or decided later.
 * - `leaving`: owed nothing more; what is pending is being taken back.
 * - `closed`: nothing of the interval is left.
 */
export type MembershipState = 'joining' | 'active' | 'leaving' | 'closed';

/** Sequences of the channel stream, both inclusive. */
export interface SeqRange {
  readonly from: number;
  readonly to: number;
}

/**
 * A member's time in a channel: the posts with `joinCursor < seq <= leaveCursor`. Both cursors
 * are sequences of one incarnation of the channel stream.
 */
export interface Interval {
  /** Never used twice for one (channel, lifecycle), not even after the row is gone. */
  readonly generation: number;
  readonly incarnation: string;
  readonly joinCursor: number;
  readonly cursorSource: CursorSource;
  readonly leaveCursor?: number;
  /** Posts of the interval that were gone, or could not be shown to be kept, when it began. */
  readonly lost?: SeqRange;
}

/** One row of the members bucket (wire contract section 4); written by the privileged side only. */
export interface MembershipRow extends Interval {
  readonly channel: string;
  readonly member: LifecycleKey;
  readonly state: MembershipState;
  /** Incarnation of the process that wrote the row. */
  readonly writer: string;
  /** Earlier intervals of which entries may still exist, oldest first. */
  readonly past: readonly Interval[];
}

export interface StoredRow {
  readonly row: MembershipRow;
  /** What compare-and-set compares with. */
  readonly revision: number;
}

/**
 * What can be said about entries of a generation.
 * - a state: that of the membership; a closed one's interval may be forgotten already.
 * - `absent`: no row speaks for it. A row goes only after its entries are disposed of.
 * - `cannot-tell`: the rows are not loaded, not current, or do not reach that generation yet.
 */
export type GenerationState =
  | { readonly state: 'joining' | 'active' | 'leaving'; readonly interval: Interval }
  | { readonly state: 'closed'; readonly interval: Interval | undefined }
  | { readonly state: 'absent' }
  | { readonly state: 'cannot-tell' };

export interface Frontier {
  readonly incarnation: string;
  /** Last sequence of the channel stream. */
  readonly seq: number;
  /**
   * Age of the oldest post still kept behind the cursor that was asked about, by the broker's
   * clock; `undefined`: there is none, or none was asked about.
   */
  readonly behindAgeMs?: number;
}

export interface Decided {
  readonly incarnation: string;
  /** Every post up to this one is decided, none behind it. */
  readonly seq: number;
}

/** `unknown-lifecycle`: there never was a rights row. `cannot-tell` never allows anything. */
export type RightAnswer = 'allow' | 'refuse' | 'unknown-lifecycle' | 'cannot-tell';

export type StoreRefusal = 'missing' | 'permission-denied' | 'malformed' | 'rejected';
export type WriteRefusal =
  | 'conflict'
  | 'store-full'
  | 'too-large'
  | 'permission-denied'
  | 'missing'
  | 'rejected';
/** Why catch-up or boundary did not do it; the registry tries again whatever the reason. */
export type PortRefusal = string;
