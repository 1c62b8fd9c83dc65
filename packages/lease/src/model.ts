import type { LeaseRow, Outcome } from '@plane3/protocol';

/**
 * The lease of one shard, as terms.
 *
 * A **term** begins with a compare-and-set that put my row into the bucket and ends when the row
 * is mine no more or I gave it back. Who I am is the process incarnation, not the principal, the
 * host or the pid: a row is mine only if it carries my holder *and* my incarnation (I26).
 *
 * The **trust window** of a term ends at (start of the last attempt that the broker confirmed) +
 * TTL − margin, on the monotonic clock of this process. It is anchored at the start of the attempt,
 * not at the answer: the broker stored the row some time after the start, so the row outlives the
 * window whatever the answer took. Each row carries the start of its attempt (`attemptMs`), a
 * number that only its own incarnation can read; an unanswered attempt that is read back therefore
 * extends the window by exactly what it is worth.
 *
 * **Renew** and **resign** are scoped to the term: both name the revision at which the row is mine,
 * so neither can touch a successor's row. On doubt a holder first stops everything (`quiesce`),
 * asks second, and only then adopts, re-takes or ends (I28).
 *
 * Clocks do not fence: a process stopped between its check and its write still writes. The fence
 * (fence.ts) does; the window only makes refused writes rare.
 */

/** Stored under `lease.<shard>` (wire contract section 7), plus the anchor of its window. */
export interface StoredRow extends LeaseRow {
  /** Start of the attempt that wrote this row, on the writer's own monotonic clock, ms. */
  readonly attemptMs: number;
}

export type HostFacts = {
  /** Boot id and pid name space: a pid means nothing outside of both. */
  readonly boot: string;
  readonly pid: number;
  /** Start time of the process in the kernel's own unit: tells a reused pid apart. */
  readonly start: string;
};

export interface Identity {
  /** The daemon's principal, `<owner>.<actor>`. */
  readonly holder: string;
  /** New for every start of a process. */
  readonly incarnation: string;
  /** Start of this process, wall clock, ms: for the reader of the row only. */
  readonly since: number;
  readonly host: HostFacts;
}

/** A row at its revision. `row` undefined: something is stored that is no lease row. */
export interface RowSeen {
  readonly row: StoredRow | undefined;
  readonly revision: number;
  /** How long ago it was stored, by wall clocks: for reports only, nothing safe depends on it. */
  readonly ageMs: number;
}

export type RowRefusal =
  /** Another revision is there than the one named. */
  | 'conflict'
  | 'permission-denied'
  /** No such bucket. */
  | 'missing'
  | 'rejected';

export type HostVerdict = 'alive' | 'dead' | 'unknown';

/** All in milliseconds; {@link timingOf} derives them from the TTL. */
export interface Timing {
  readonly ttlMs: number;
  /** What the window stays short of the TTL: clock rates differ, and a write takes a while. */
  readonly marginMs: number;
  readonly renewEveryMs: number;
  /** Pause before something that was not answered is asked again; also the poll while waiting. */
  readonly retryMs: number;
  /** After this a call counts as unanswered. */
  readonly callTimeoutMs: number;
  /** A holder that has not renewed for this long while it was watched does not answer. */
  readonly observeMs: number;
  /** Bound of an acquisition without any answer. */
  readonly startMaxMs: number;
  /** Bound of the host's quiesce; past it the process is not to be trusted any more. */
  readonly quiesceMaxMs: number;
  /** Bound of asking in doubt. */
  readonly doubtMaxMs: number;
  readonly releaseMaxMs: number;
}

/** The row is mine from `tookRevision` on, and is now at `revision`. */
interface Term {
  readonly tookRevision: number;
  readonly revision: number;
  readonly trustedUntilMs: number;
}

/** The one request that is under way, or the time of the next. */
export type Ask =
  | { readonly kind: 'none'; readonly atMs: number }
  | { readonly kind: 'read'; readonly request: number }
  | { readonly kind: 'judge'; readonly request: number; readonly seen: RowSeen }
  | { readonly kind: 'write'; readonly request: number; readonly row: StoredRow; readonly how: How }
  | { readonly kind: 'remove'; readonly request: number };

/** How a row became mine: nobody's, a dead holder's, or mine already. */
export type How = 'created' | 'superseded' | 'adopted';

interface Common {
  readonly identity: Identity;
  readonly timing: Timing;
  readonly nextRequest: number;
  /** A write of mine may be in the bucket: a release has to look. */
  readonly wrote: boolean;
}

export interface Idle extends Common {
  readonly phase: 'idle';
}
export interface Acquiring extends Common {
  readonly phase: 'acquiring';
  readonly startedMs: number;
  /** A dead holder's row is waited for until then. */
  readonly waitUntilMs: number;
  /** Last time that anything was answered. */
  readonly answeredMs: number;
  readonly ask: Ask;
  /** The rival's row as first seen at this revision, on my clock. */
  readonly rival: { readonly revision: number; readonly firstSeenMs: number } | undefined;
  readonly conflicts: number;
}
export interface Held extends Common {
  readonly phase: 'held';
  readonly term: Term;
  /** What the stored row says. */
  readonly ready: boolean;
  readonly wantReady: boolean;
  /** One more renewal was asked for while one was under way. */
  readonly again: boolean;
  /** The last renewal was not answered: read back before the next. */
  readonly unsure: boolean;
  readonly ask: Ask;
}
export interface Doubting extends Common {
  readonly phase: 'doubting';
  readonly reason: DoubtReason;
  readonly sinceMs: number;
  readonly quiesced: boolean;
  readonly ask: Ask;
}
export interface Releasing extends Common {
  readonly phase: 'releasing';
  readonly untilMs: number;
  readonly ask: Ask;
}
export interface Lost extends Common {
  readonly phase: 'lost';
  readonly reason: LossReason;
}
export interface Released extends Common {
  readonly phase: 'released';
  readonly rowLeft: boolean;
}
export type LeaseState = Idle | Acquiring | Held | Doubting | Releasing | Lost | Released;
export type Phase = LeaseState['phase'];

export type DoubtReason =
  /** No renewal was confirmed within the window, or this process slept through it. */
  | 'window-passed'
  | 'renewal-refused'
  | 'row-taken'
  | 'row-gone'
  /** A write of mine was refused for the fence: a successor's mark is there, or mine is gone. */
  | 'fence-refused';
export type LossReason = 'taken' | 'unreachable' | 'quiesce-stuck';

/** Why the lease cannot be had (I31). Each is another message and, where it differs, exit code. */
export type Refusal =
  | {
      readonly kind: 'held-and-alive' | 'held-and-not-answering';
      readonly holder: string | undefined;
      readonly incarnation: string | undefined;
      readonly host: HostFacts | undefined;
      readonly ageMs: number;
      /** Milliseconds until the row ends by itself if its holder is dead. */
      readonly expiresInMs: number;
    }
  | {
      readonly kind:
        | 'permission-denied'
        | 'unreachable'
        | 'bucket-missing'
        | 'wrong-settings'
        | 'expiry-broken'
        /** Nothing but conflicts: others create and remove the row all the time. */
        | 'contended'
        /** `release` was called meanwhile. */
        | 'cancelled';
      readonly detail: string;
    };

/** `nowMs` is the monotonic clock of this process. */
export type LeaseEvent = { readonly nowMs: number } & (
  | { readonly kind: 'acquire'; readonly waitMs: number }
  | { readonly kind: 'tick' }
  | {
      readonly kind: 'read';
      readonly request: number;
      readonly answer: Outcome<RowSeen | undefined, RowRefusal>;
    }
  /** Answer to a write or a removal: the new revision. */
  | {
      readonly kind: 'written';
      readonly request: number;
      readonly answer: Outcome<number, RowRefusal>;
    }
  | { readonly kind: 'judged'; readonly request: number; readonly verdict: HostVerdict }
  /** The watch saw a change; `incarnation` undefined: removed, or no lease row. */
  | {
      readonly kind: 'noticed';
      readonly revision: number;
      readonly incarnation: string | undefined;
      readonly removed: boolean;
    }
  /** Renew at once: the host wants a proof that began after this moment, or to become ready. */
  | { readonly kind: 'renew'; readonly ready: boolean }
  | { readonly kind: 'fence-refused' }
  | { readonly kind: 'quiesced' }
  | { readonly kind: 'release' }
);

export type Decision =
  | { readonly kind: 'read-row'; readonly request: number }
  /** Compare-and-set; expected revision 0: there must be no row. */
  | {
      readonly kind: 'write-row';
      readonly request: number;
      readonly row: StoredRow;
      readonly expectedRevision: number;
    }
  | { readonly kind: 'remove-row'; readonly request: number; readonly revision: number }
  | { readonly kind: 'judge-host'; readonly request: number; readonly host: HostFacts }
  /** Stop consuming, writing and answering, now; then `quiesced`. Precedes every question. */
  | { readonly kind: 'quiesce'; readonly reason: DoubtReason }
  | { readonly kind: 'held'; readonly revision: number; readonly how: How }
  /** After a doubt: mine again, not ready; fence, start and become ready anew. */
  | { readonly kind: 'regained'; readonly revision: number; readonly how: How }
  | {
      readonly kind: 'renewed';
      readonly revision: number;
      readonly attemptMs: number;
      readonly ready: boolean;
    }
  | { readonly kind: 'lost'; readonly reason: LossReason; readonly detail: string }
  | { readonly kind: 'refused'; readonly refusal: Refusal }
  | { readonly kind: 'released'; readonly rowLeft: boolean };

export interface Step {
  readonly state: LeaseState;
  readonly decisions: readonly Decision[];
}
