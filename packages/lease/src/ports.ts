import type { Outcome } from '@plane3/protocol';
import type { FenceMark, FenceRefusal, FenceSeen } from './fence.ts';
import type {
  DoubtReason,
  HostFacts,
  HostVerdict,
  RowRefusal,
  RowSeen,
  StoredRow,
} from './model.ts';

/** What the bucket is configured for, as the broker tells it; nobody's own settings count. */
export interface BucketSettings {
  readonly bucket: string;
  /** Age at which a row ends by itself, ms; 0: never. */
  readonly ttlMs: number;
  /** How long a marker stands for an ended row, ms; 0: no markers. */
  readonly markerTtlMs: number;
}

/**
 * The row `lease.<shard>` of the lease bucket (wire contract sections 4 and 7).
 *
 * Promises: every read is the leader's; every write and removal is one compare-and-set, so of two
 * that name the same revision at most one is `done`; revisions of the bucket only grow; a row that
 * is not rewritten ends within the bucket's age. Nothing here renews, retries or waits for longer
 * than the call timeout it was made with: beyond it the answer is `unknown`, and what it asked for
 * may still happen.
 *
 * Not in it: ownership. The port compares revisions, the machine compares incarnations.
 */
export interface LeaseRowPort {
  settings(): Promise<Outcome<BucketSettings, RowRefusal>>;
  /** `undefined`: proved absent, expired or removed. */
  read(): Promise<Outcome<RowSeen | undefined, RowRefusal>>;
  /** Expected revision 0: there is no row, though perhaps a removed one. Answers the revision. */
  write(row: StoredRow, expectedRevision: number): Promise<Outcome<number, RowRefusal>>;
  /** Removes the row at exactly this revision; a successor may create at once. */
  remove(revision: number): Promise<Outcome<number, RowRefusal>>;
  /**
   * Every later change of the row by anybody, within a second while the broker is there; may repeat
   * and may come late, so a notice is a reason to ask and never an answer. An expiry may pass
   * without one. Answers how to stop it, once the broker has accepted it.
   */
  watch(listener: (n: RowNotice) => void): Promise<Outcome<() => void, RowRefusal>>;
  readonly probe: ExpiryProbePort;
}

export interface RowNotice {
  readonly revision: number;
  readonly removed: boolean;
  /** `undefined`: removed, or no lease row. */
  readonly incarnation: string | undefined;
}

/**
 * A key of its own beside the row, under the same age: the proof that rows really end. Shared by
 * all who start on this shard; each overwrites it.
 */
export interface ExpiryProbePort {
  write(): Promise<Outcome<number, RowRefusal>>;
  /** `storedMs` is the broker's clock: two of them may be compared with one another only. */
  read(): Promise<Outcome<ProbeSeen | undefined, RowRefusal>>;
}

export interface ProbeSeen {
  readonly revision: number;
  readonly storedMs: number;
}

/**
 * The fence subject of one stream (wire contract section 4, design: a stale holder's writes fail).
 * Reads are the leader's, the write is one compare-and-set on the fence subject's last sequence.
 * Its answer is the sequence that every write of the holder names. The mark outlives the stream's
 * age where the broker can do that; a lost mark refuses every write that names it, which is safe
 * and asks for a new one.
 */
export interface FencePort {
  read(): Promise<Outcome<FenceSeen | undefined, FenceRefusal>>;
  /** Expected sequence 0: no fence was ever written. */
  write(mark: FenceMark, expectedSeq: number): Promise<Outcome<number, FenceRefusal>>;
}

/** What can be known about a process on this host. */
export interface HostProbe {
  self(): HostFacts;
  /**
   * `dead` is a proof: same boot and pid name space, and no process of that pid and start time is
   * there. Anything less, another host above all, is `unknown`.
   */
  judge(host: HostFacts): Promise<HostVerdict>;
}

/** What the host of the lease does for it. */
export interface LeaseHost {
  /**
   * Called once before a row may be written: signal handlers are armed after it returned (I27).
   * Throws: nothing was written.
   */
  arm(): void;
  /**
   * Stop consuming, writing and answering. Intake must have stopped when this returns, the promise
   * ends when nothing more is under way. Bounded by `quiesceMaxMs`; longer, or a rejection, loses
   * the lease. Never called twice for one doubt.
   */
  quiesce(reason: DoubtReason): Promise<void>;
}

export interface Clock {
  /** Monotonic, ms. Not comparable between processes. */
  nowMs(): number;
  /** Wall clock, ms since the epoch; only ever written down for readers. */
  wallMs(): number;
}

export interface Timers {
  /** Runs `f` once after `ms`; answers how to take it back. */
  after(ms: number, f: () => void): () => void;
}
