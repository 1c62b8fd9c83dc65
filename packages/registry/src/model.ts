import type { ErrorCode, Lifecycle, LifecycleKey, Outcome } from '@plane3/protocol';
import type {
  CursorSource,
  Decided,
  Frontier,
  MembershipRow,
  PortRefusal,
  RightAnswer,
  SeqRange,
  StoredRow,
  StoreRefusal,
  WriteRefusal,
} from './membership.ts';
import type { RowIndex } from './row-index.ts';

/** Identifies one request of this process. */
export type RequestId = number;
export type Goal = 'join' | 'leave' | 'remove' | 'settle';
export interface Joined {
  readonly durable: true;
  readonly generation: number;
  readonly joinCursor: number;
  readonly cursorSource: CursorSource;
  readonly lost?: SeqRange;
}
export interface Left {
  readonly channel: string;
  /** 0 with `alreadyLeft` where no record of a membership is left. */
  readonly leaveCursor: number;
  readonly alreadyLeft?: true;
  /** Entries that this leave took out of the store. */
  readonly disposed: number;
}
export interface Retired {
  /** Rows that were removed. */
  readonly removed: number;
  readonly disposed: number;
}
export interface Failure {
  readonly ok: false;
  readonly code: ErrorCode;
  /** `not-executed`: nothing was changed by it. `unknown`: it may be done, now or later. */
  readonly outcome: 'not-executed' | 'unknown';
  readonly detail: string;
}
export type Answer<T> = { readonly ok: true; readonly data: T } | Failure;
export type AnyAnswer = Answer<Joined> | Answer<Left> | Answer<Retired>;

export interface Settings {
  /** A claimed join cursor may lie at most this far back, in sequences of the channel stream … */
  readonly windowPosts: number;
  /** … and the oldest post behind it may be at most this old. */
  readonly windowAgeMs: number;
  /** Every request is answered within this; what is not done by then goes on in the background. */
  readonly answerWithinMs: number;
  /** Requests of one (channel, lifecycle) that wait or run at a time. */
  readonly requestsPerKeyMax: number;
  /** Requests that wait or run at a time, all in all. */
  readonly requestsMax: number;
  readonly catchUpsMax: number;
  readonly closesMax: number;
  /** Conflicts in a row on one row after which a request is answered `conflict`. */
  readonly conflictsMax: number;
  readonly retryFirstMs: number;
  readonly retryCeilingMs: number;
}

export const DEFAULT_SETTINGS: Settings = {
  windowPosts: 100_000,
  windowAgeMs: 600_000,
  answerWithinMs: 5_000,
  requestsPerKeyMax: 8,
  requestsMax: 4_096,
  catchUpsMax: 16,
  closesMax: 64,
  conflictsMax: 5,
  retryFirstMs: 100,
  retryCeilingMs: 5_000,
};

/** A request as it waits for its turn at one (channel, lifecycle). */
export type Asked =
  | { readonly goal: 'join'; readonly request: RequestId; readonly joinCursor: number | undefined }
  | { readonly goal: 'leave'; readonly request: RequestId; readonly generation: number | undefined }
  /** Part of a {@link Retirement}, which has the requests. */
  | { readonly goal: 'remove' };

/** What a task waits for. */
export type Waiting =
  | 'right'
  | 'positions'
  | 'write'
  | 'read-back'
  | 'decided'
  | 'catch-up'
  | 'close'
  | 'turn'
  | 'back-off';

/** The work on one (channel, lifecycle); there is at most one, so its steps are serialised. */
export interface Task {
  readonly key: string;
  readonly channel: string;
  readonly member: LifecycleKey;
  goal: Goal;
  /** The request that waits for the goal; without one the work is in the background. */
  asked: Asked | undefined;
  waiting: Waiting | undefined;
  /** Answers to anything asked under an earlier token are ignored. */
  token: number;
  tries: number;
  conflicts: number;
  /** A write was issued for the goal: it may have happened, whatever else is known. */
  wrote: boolean;
  right: boolean;
  positions: { readonly frontier: Frontier; readonly storeSeq: number } | undefined;
  /** The write whose answer is awaited; `row` undefined: the removal. */
  write: { readonly row: MembershipRow | undefined; readonly expected: number } | undefined;
  /** Generation that the boundary now awaited is about. */
  closing: number;
  /**
   * The catch-up call that is not answered yet, even if nobody waits for it now. There is never a
   * second one beside it: its late copies would put back what was confirmed meanwhile.
   */
  copying: { readonly token: number; readonly generation: number } | undefined;
  caughtUp: { readonly generation: number; readonly lost: SeqRange | undefined } | undefined;
  /** Generations of which nothing is left in the store. */
  readonly cleared: Set<number>;
  /** A foreign process activated the row; its catch-up is not trusted to cover our decisions. */
  suspect: boolean;
  disposed: number;
  readonly queue: Asked[];
}

/** While it lasts the lifecycle cannot join anything. */
export interface Retirement {
  readonly requests: Set<RequestId>;
  /** Keys of which the row is not removed yet. */
  readonly open: Set<string>;
  removed: number;
  disposed: number;
}

/** Limits how many tasks are in one kind of heavy work; the others wait for their turn in order. */
export interface Gate {
  readonly max: number;
  readonly inside: Set<string>;
  readonly waiting: Set<string>;
}

/** Owned by the machine, which changes it in place: it holds every membership of the space. */
export interface State {
  readonly writer: string;
  /** The last one given out; never used twice, so that a late answer meets no other task. */
  token: number;
  readonly settings: Settings;
  /** `recreated`: a store is not the one that the rows belong to; only a new start helps. */
  phase: 'empty' | 'loaded' | 'recreated';
  /** Incarnation of the channel stream that cursors must count in. */
  incarnation: string;
  readonly rows: RowIndex;
  readonly tasks: Map<string, Task>;
  /** Revision of a removal of ours whose echo has not come yet: older echoes are no news. */
  readonly removedAt: Map<string, number>;
  readonly retirements: Map<LifecycleKey, Retirement>;
  /** Requests that are not answered, and whose they are. */
  readonly open: Map<RequestId, { readonly key: string } | { readonly retiring: LifecycleKey }>;
  readonly gates: { readonly 'catch-up': Gate; readonly close: Gate };
  readonly counters: Counters;
}

export interface Counters {
  joins: number;
  leaves: number;
  /** Writes that another writer was ahead of. */
  conflicts: number;
  /** Writes of which nobody could say at first whether they happened. */
  unknownWrites: number;
  /** Rows changed by a process that is not this one. */
  foreignChanges: number;
  /** Writes that carry a membership over into a recreated channel stream. */
  rebased: number;
  backOffs: number;
}

export type Event =
  | {
      readonly kind: 'loaded';
      readonly rows: Iterable<StoredRow>;
      readonly incarnation: string;
    }
  | {
      readonly kind: 'row-changed';
      readonly key: string;
      readonly row: MembershipRow | undefined;
      readonly revision: number;
    }
  | { readonly kind: 'store-recreated' }
  | {
      readonly kind: 'join-asked';
      readonly request: RequestId;
      readonly lifecycle: Lifecycle;
      readonly channel: string;
      readonly joinCursor?: number;
    }
  | {
      readonly kind: 'leave-asked';
      readonly request: RequestId;
      readonly lifecycle: Lifecycle;
      readonly channel: string;
      readonly generation?: number;
    }
  | {
      readonly kind: 'retire-asked';
      readonly request: RequestId;
      readonly lifecycle: Lifecycle;
    }
  | { readonly kind: 'bound-over'; readonly request: RequestId }
  | (KeyEvent &
      (
        | { readonly kind: 'right-answered'; readonly answer: RightAnswer }
        | {
            readonly kind: 'positions-read';
            readonly frontier: Outcome<Frontier>;
            readonly storeSeq: Outcome<number>;
          }
        | { readonly kind: 'write-answered'; readonly outcome: Outcome<number, WriteRefusal> }
        | {
            readonly kind: 'row-read';
            readonly outcome: Outcome<StoredRow | undefined, StoreRefusal>;
          }
        | { readonly kind: 'decided-read'; readonly decided: Decided | undefined }
        | {
            readonly kind: 'catch-up-answered';
            readonly outcome: Outcome<{ readonly lost?: SeqRange }, PortRefusal>;
          }
        | {
            readonly kind: 'boundary-closed';
            readonly outcome: Outcome<{ readonly disposed: number }, PortRefusal>;
          }
        | { readonly kind: 'wait-over' }
      ));

export interface KeyEvent {
  readonly key: string;
  readonly token: number;
}

/** Each one with a token is answered by one event with the same key and token. */
export type Decision =
  | (KeyEvent &
      (
        | { readonly kind: 'ask-right'; readonly member: LifecycleKey; readonly channel: string }
        | {
            readonly kind: 'read-positions';
            /** Whose age is wanted: a cursor that a client claims. */
            readonly behind: number | undefined;
            readonly withStoreSeq: boolean;
          }
        | {
            readonly kind: 'write-row';
            readonly row: MembershipRow;
            readonly expected: number;
          }
        | { readonly kind: 'remove-row'; readonly expected: number }
        | { readonly kind: 'read-row' }
        | { readonly kind: 'read-decided' }
        | {
            readonly kind: 'catch-up';
            readonly row: MembershipRow;
            readonly from: number;
            readonly to: number;
          }
        | {
            readonly kind: 'close-boundary';
            readonly member: LifecycleKey;
            readonly channel: string;
            readonly generation: number;
            readonly leaveCursor: number;
          }
        | { readonly kind: 'wait'; readonly ms: number }
      ))
  | {
      /** A row in memory is another one now; `undefined`: it is gone. */
      readonly kind: 'changed';
      readonly channel: string;
      readonly member: LifecycleKey;
      readonly row: MembershipRow | undefined;
    }
  | { readonly kind: 'bound'; readonly request: RequestId; readonly ms: number }
  | { readonly kind: 'answer'; readonly request: RequestId; readonly answer: AnyAnswer }
  | { readonly kind: 'report'; readonly report: Report };

/** What an operator should be able to see; one line of the log each. */
export type Report =
  | {
      readonly event: 'registry.loaded';
      readonly rows: number;
      readonly unsettled: number;
    }
  | {
      readonly event: 'registry.conflict';
      readonly key: string;
      readonly expected: number;
      readonly conflicts: number;
    }
  | {
      readonly event: 'registry.foreign-change';
      readonly key: string;
      readonly writer: string | undefined;
      readonly revision: number;
    }
  | {
      readonly event: 'registry.backing-off';
      readonly key: string;
      readonly why: string;
      readonly tries: number;
    }
  | {
      readonly event: 'registry.rebase';
      /** Memberships whose cursors count in an earlier incarnation of the channel stream. */
      readonly memberships: number;
    }
  | { readonly event: 'registry.channel-stream-recreated' }
  | { readonly event: 'registry.store-recreated' }
  | { readonly event: 'registry.lost'; readonly key: string; readonly lost: SeqRange };
