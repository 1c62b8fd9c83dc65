import type { Lifecycle, LifecycleKey, Outcome } from '@plane3/protocol';
import type {
  Decided,
  Frontier,
  MembershipRow,
  RightAnswer,
  SeqRange,
  StoredRow,
  StoreRefusal,
  WriteRefusal,
} from './membership.ts';
import type { Report } from './model.ts';

/**
 * What the registry asks of its surroundings. Nothing here throws for what can happen in service;
 * every answer comes within a bounded time, and a timeout or a lost connection is `unknown`.
 */

export interface StoreSink {
  /**
   * A row that is now there, or (`undefined`) is gone, at this revision: everybody's changes, the
   * own ones too. Per key in the order of revisions; a change may be told twice, and changes may
   * be merged into the last one. None is left out for good.
   */
  changed(key: string, row: MembershipRow | undefined, revision: number): void;
  /** The store is another one than was loaded. What it holds says nothing about the old one. */
  recreated(): void;
}

/**
 * The members bucket: one row per (channel, lifecycle), key `<channel>/<owner>.<actor>.<uid>`
 * (wire contract section 4), changed by compare-and-set only. A row and its cursors are one value,
 * so they change together or not at all.
 */
export interface MembershipStore {
  /** All rows, completely; afterwards `sink` hears every change. Once, before anything else. */
  load(sink: StoreSink): Promise<Outcome<readonly StoredRow[], StoreRefusal>>;
  /** Leader read; `undefined` only where there provably is no row. */
  read(key: string): Promise<Outcome<StoredRow | undefined, StoreRefusal>>;
  /**
   * Writes if the row's revision still is `expected` (0: there is no row), answers the new one.
   * `conflict` means that it is another one; nothing was written.
   */
  write(key: string, row: MembershipRow, expected: number): Promise<Outcome<number, WriteRefusal>>;
  /** Removes the row if its revision still is `expected`; the answered revision is above it. */
  remove(key: string, expected: number): Promise<Outcome<number, WriteRefusal>>;
  /**
   * Last sequence of the store by its leader: at least every revision ever given out, also those
   * of rows that are gone. Generations come from it.
   */
  lastSeq(): Promise<Outcome<number, StoreRefusal>>;
  /** Whether the changes told so far were proved complete not longer ago than the freshness. */
  isCurrent(): boolean;
  /** When that was last proved, on the same monotonic clock as {@link Clock}. */
  currentAsOfMs(): number;
  close(): Promise<void>;
}

/** The end of the channel stream (`CHAT`), by its leader. */
export interface FrontierReader {
  /** With the age of the oldest post kept behind `behind`, if that is given. */
  read(behind: number | undefined): Promise<Outcome<Frontier>>;
}

/** How far fan-out has decided. In memory: the answer is there at once. */
export interface Position {
  /**
   * `undefined` while the stored fan-out cursor is not read yet. Every post behind the answer
   * will be decided with the memberships as they are now or later; those up to it may have been
   * decided with earlier ones.
   */
  decided(): Decided | undefined;
}

export interface CatchUpRange {
  readonly row: MembershipRow;
  /** Exclusive: the join cursor. */
  readonly from: number;
  /** Inclusive: the last post that may have been decided without the member. */
  readonly to: number;
}

/**
 * Copies (from, to] of the row's channel for its member, under the very store ids that fan-out
 * uses: repeating it stores nothing twice. `lost` names a range of which posts were evicted, or
 * cannot be shown to be kept; what is left of it is copied all the same.
 *
 * `done` says two things: every copy is proved stored, and this process held the fence at some
 * moment after the call, also when the range is empty. So a process that lost the lease never
 * activates a row which its successor has not seen as joining.
 */
export interface CatchUp {
  copy(range: CatchUpRange): Promise<Outcome<{ readonly lost?: SeqRange }>>;
}

export interface Boundary {
  readonly member: LifecycleKey;
  readonly channel: string;
  readonly generation: number;
  readonly leaveCursor: number;
}

/**
 * The hard boundary of a leave. The row says `leaving` in memory and store already, so nothing
 * new is owed. `done`: no copy for the member is under way, nothing of the generation is in the
 * member's reach, and every entry of it is out of the store, counted as left. Repeating it is
 * harmless.
 */
export interface BoundaryCloser {
  close(boundary: Boundary): Promise<Outcome<{ readonly disposed: number }>>;
}

/** The caller's read right on a channel, asked at each join and never at a leave. */
export interface MayRead {
  ask(member: LifecycleKey, channel: string): Promise<RightAnswer>;
}

export interface Clock {
  /** For durations and ages; never steps. */
  monotonicMs(): number;
}

export interface Timers {
  /** Calls `run` once after `ms`; the returned function cancels. */
  after(ms: number, run: () => void): () => void;
}

export interface RegistryPorts {
  readonly store: MembershipStore;
  readonly frontier: FrontierReader;
  readonly position: Position;
  readonly catchUp: CatchUp;
  readonly boundary: BoundaryCloser;
  readonly rights: MayRead;
  readonly clock: Clock;
  readonly timers: Timers;
  /** One line of the log each; never content. */
  readonly report?: (report: Report) => void;
}

export interface JoinRequest {
  readonly lifecycle: Lifecycle;
  readonly channel: string;
  readonly joinCursor?: number;
}
export interface LeaveRequest {
  readonly lifecycle: Lifecycle;
  readonly channel: string;
  readonly generation?: number;
}
