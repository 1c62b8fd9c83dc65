import type { EntryKind, LifecycleKey } from '@plane3/protocol';
import type { Fifo } from './fifo.ts';

/** One post as the channel stream keeps it. */
export interface Post {
  readonly seq: number;
  /** The stored subject: what the broker vouches for. */
  readonly subject: string;
  readonly body: Uint8Array;
  /** When the broker stored it, wall clock ms. */
  readonly storedAtMs: number;
  /** Those of protocol's `BROKER_HEADERS` that the post bears; an honest one bears none. */
  readonly brokerHeaders: readonly string[];
  /** How many posts the stream still held behind it when it was read. */
  readonly pending: number;
}

/** Why a post goes to the dead posts: it can never be copied, however often it is tried. */
export type BurialReason =
  | 'malformed-subject'
  | 'sender-mismatch'
  | 'malformed-json'
  | 'broker-headers'
  | 'too-large';

/** A post that was judged sound, framed once for all its copies. */
export interface SoundPost {
  readonly seq: number;
  readonly channel: string;
  /** The sender's principal, dot form. */
  readonly from: string;
  /** Lowercased names, each once. */
  readonly mentions: readonly string[];
  readonly storedAtMs: number;
  readonly frame: Uint8Array;
}

/** What became of a name that a post on a live channel mentions. */
export type MentionOutcome =
  | 'copied'
  | 'nobody'
  | 'ambiguous'
  | 'unauthorised'
  | 'self'
  | 'same-member'
  | 'over-budget';

/** A copy that the decision calls for. */
export interface Owed {
  readonly member: LifecycleKey;
  readonly generation: number;
  readonly kind: EntryKind;
}

/** Why a post is buried. */
export interface Verdict {
  readonly reason: BurialReason;
  readonly detail: string;
}

/** The decision about one post; made in stream order. */
export interface Plan {
  readonly post: Post;
  /** `undefined`: the post goes to the dead posts, for the reason in `burial`. */
  readonly sound: SoundPost | undefined;
  readonly copies: readonly Owed[];
  readonly burial: Verdict | undefined;
  readonly mentions: readonly MentionOutcome[];
  /** Base64 of the signature that all copies of the post bear. */
  readonly signature: string | undefined;
}

/**
 * How far every owed copy is proved stored. Kept as a message in the member store itself, so
 * that a cursor which is there implies the copies which it covers.
 */
export interface FanOutCursor {
  /** Incarnation of the channel stream that `seq` counts in. */
  readonly incarnation: string;
  /** Every post up to and including this one is done. 0: none. */
  readonly seq: number;
  /** A copy of a later post, if there is one, lies above this sequence of the member store. */
  readonly storeFloor: number;
  /** The same for the dead posts' stream. */
  readonly deadFloor: number;
}

/** A copy that was found in the store above the cursor. */
export interface FoundCopy {
  readonly generation: number;
  readonly kind: EntryKind;
  readonly storeSeq: number;
}

/** One copy on its way. Owned by the machine, which alone changes it. */
export interface Copy extends Owed {
  readonly work: PostInWork;
  /** Store id without an attempt number. */
  readonly entry: string;
  /** Raised after each false duplicate; the publish id is the entry id and `~attempt` from 1 on. */
  attempt: number;
  stored: boolean;
}

/** One decided post that the stored cursor does not cover yet. */
export interface PostInWork {
  readonly plan: Plan;
  readonly seq: number;
  readonly incarnation: string;
  readonly copies: Copy[];
  /** Highest sequences known in both stores before anything of this post was written. */
  readonly storeFloor: number;
  readonly deadFloor: number;
  /** Copies and burials that are not proved yet, issued or not. */
  open: number;
  /** Set when the post is to be buried; a post is buried once, however many copies are refused. */
  burial: Verdict | undefined;
}

/**
 * - `idle`: not started.
 * - `recovering`: reading cursor and store, opening the source. The way in, always the same one.
 * - `running`: copying.
 * - `draining`: something went wrong; waits until every open write is answered.
 * - `backing-off`: waits before it recovers.
 * - `stopping`: told to stop; open writes are awaited and the cursor written a last time.
 * - `stopped`: for good, `reason` says why. Only a new start leaves it.
 */
export type Phase =
  | 'idle'
  | 'recovering'
  | 'running'
  | 'draining'
  | 'backing-off'
  | 'stopping'
  | 'stopped';

export type Trouble =
  | 'requested'
  | 'fence-lost'
  | 'store-recreated'
  | 'store-full'
  | 'store-refused'
  | 'store-unknown'
  | 'false-duplicates'
  | 'dead-refused'
  | 'source-broken'
  | 'source-missing'
  | 'source-refused'
  | 'unreachable';

export interface Reason {
  readonly trouble: Trouble;
  readonly detail: string;
}

/** Why a stored cursor is not used. */
export interface Recreated {
  /** `incarnation`: another stream. `behind`: the same stream ends before the cursor. */
  readonly why: 'incarnation' | 'behind';
  readonly cursor: { readonly incarnation: string; readonly seq: number };
  readonly found: { readonly incarnation: string; readonly lastSeq: number };
}

export interface Counters {
  /** Posts decided, each once however often it was replayed. */
  posts: number;
  /** Copies that this process wrote and the store acknowledged. */
  copies: number;
  /** Owed copies that a scan found in the store already. */
  found: number;
  /** Duplicate answers that were read back as the very entry. */
  duplicates: number;
  /** Duplicate answers that were not; the copy was written under a new attempt number. */
  falseDuplicates: number;
  /** Owed copies dropped before they were written, because the member was settled. */
  withdrawn: number;
  /** Copies that catch-up wrote. */
  caughtUp: number;
  recoveries: number;
  /** Sequences that left the channel stream before they were decided. */
  evicted: number;
  buried: Record<BurialReason, number>;
  mentions: Record<MentionOutcome, number>;
}

export interface Limits {
  /** Copies written and not yet answered. */
  readonly copiesOpenMax: number;
  /** Decided posts that the stored cursor does not cover yet. */
  readonly postsOpenMax: number;
  /** Posts asked of the source and not yet decided. */
  readonly postsAskedMax: number;
  /** Posts asked for at a time. */
  readonly askChunk: number;
  readonly backOffMinMs: number;
  readonly backOffMaxMs: number;
}

export interface State {
  readonly limits: Limits;
  readonly counters: Counters;
  phase: Phase;
  reason: Reason | undefined;
  options: StartOptions;
  incarnation: string;
  /** What the store holds; `undefined`: not read yet, or none there. */
  cursor: FanOutCursor | undefined;
  /** Sequence of the cursor write that is not answered yet. */
  cursorOpen: FanOutCursor | undefined;
  /** Last post of the gapless row of finished ones. */
  completed: number;
  /** Highest post ever decided in this process. */
  decided: number | undefined;
  /** Decided posts in stream order which the stored cursor does not cover. */
  window: Fifo<PostInWork>;
  /** How many at the head of `window` are finished. */
  finished: number;
  waiting: Fifo<Post>;
  /** The one post whose copies are not all issued, and the next of them. */
  issuing: { readonly work: PostInWork; next: number } | undefined;
  deciding: boolean;
  directoryCurrent: boolean;
  asked: number;
  copiesOpen: number;
  checksOpen: number;
  burialsOpen: number;
  /** Copies above the cursor that the last scan found, by slot. */
  slots: Map<string, FoundCopy[]>;
  /** Posts above the cursor that are in the dead posts already. */
  buried: Set<number>;
  /** Entries told to the listeners in an earlier run of this process and not covered yet. */
  announced: Map<string, number>;
  storeSeq: number;
  deadSeq: number;
  openByMember: Map<LifecycleKey, number>;
  /** See `noteLate`. */
  late: { readonly seq: number; readonly storeSeq: number } | undefined;
  /** No post above this is in `slots` or `buried`. */
  foundThrough: number;
  /** Floors of the cursor that the last recovery read. */
  recoveredFloors: { readonly storeFloor: number; readonly deadFloor: number };
  /** Every hole up to this sequence is counted. */
  evictedThrough: number;
  /** The last post that the source gave, or where it was asked to begin. */
  taken: number;
  /** Ranges that were gone; told one by one only at first. */
  holes: number;
  /** Members of writes that nobody could answer for; resolved by the next scan. */
  unresolved: LifecycleKey[];
  recoveriesInARow: number;
  sourcePending: number;
}

export interface StartOptions {
  /** First post to read when the store holds no cursor (a space's first start). */
  readonly fromSeqIfNoCursor: number;
  /** What to do with a cursor of another channel stream: refuse, or begin that stream anew. */
  readonly onRecreated: 'refuse' | 'restart';
}

export type StoreRefusal =
  | 'fence-lost'
  | 'store-full'
  | 'too-large'
  | 'permission-denied'
  | 'missing'
  | 'rejected';

export type Answer =
  | { readonly kind: 'stored'; readonly storeSeq: number; readonly duplicate: boolean }
  | { readonly kind: 'refused'; readonly reason: StoreRefusal; readonly detail: string }
  | { readonly kind: 'unknown'; readonly cause: string };

export type Event =
  | { readonly kind: 'start'; readonly options: StartOptions }
  | {
      readonly kind: 'recovered';
      readonly cursor: FanOutCursor | undefined;
      readonly source: {
        readonly incarnation: string;
        readonly firstSeq: number;
        readonly lastSeq: number;
      };
      readonly slots: Map<string, FoundCopy[]>;
      readonly storeSeq: number;
      readonly buried: Set<number>;
      readonly deadSeq: number;
      /** No post above this is among `slots` and `buried`. */
      readonly foundThrough: number;
    }
  | { readonly kind: 'opened' }
  | { readonly kind: 'failed'; readonly reason: Reason }
  | { readonly kind: 'retry' }
  | { readonly kind: 'post'; readonly post: Post }
  | { readonly kind: 'directory'; readonly current: boolean }
  | { readonly kind: 'decided'; readonly plan: Plan }
  | { readonly kind: 'answered'; readonly copy: Copy; readonly answer: Answer }
  | {
      readonly kind: 'verified';
      readonly copy: Copy;
      /** `undefined`: the read was not answered. */
      readonly present: boolean | undefined;
      readonly storeSeq: number;
      readonly cause: string;
    }
  | { readonly kind: 'buried'; readonly work: PostInWork; readonly answer: Answer }
  | { readonly kind: 'cursor-answered'; readonly cursor: FanOutCursor; readonly answer: Answer }
  | { readonly kind: 'settle'; readonly member: LifecycleKey }
  | { readonly kind: 'rechecked'; readonly copy: Copy; readonly owed: boolean }
  | { readonly kind: 'caught-up'; readonly storeSeq: number }
  | { readonly kind: 'fence-lost'; readonly detail: string }
  | { readonly kind: 'stop' };

export type Decision =
  /** Read the cursor, scan the store above it, look at the source; answer `recovered` or `failed`. */
  | { readonly kind: 'recover' }
  | { readonly kind: 'open-source'; readonly fromSeq: number }
  | { readonly kind: 'close-source' }
  | { readonly kind: 'ask'; readonly count: number }
  /** Judge it, look at the directory; answer `decided`, or `directory` when it is not current. */
  | { readonly kind: 'decide'; readonly post: Post }
  | { readonly kind: 'publish'; readonly copy: Copy }
  | { readonly kind: 'verify'; readonly copy: Copy; readonly storeSeq: number }
  | { readonly kind: 'bury'; readonly work: PostInWork; readonly verdict: Verdict }
  | { readonly kind: 'announce'; readonly copy: Copy; readonly storeSeq: number }
  | { readonly kind: 'write-cursor'; readonly cursor: FanOutCursor }
  | { readonly kind: 'cursor-stored'; readonly cursor: FanOutCursor }
  | { readonly kind: 'recheck'; readonly copy: Copy }
  | { readonly kind: 'retry-after'; readonly afterMs: number }
  | { readonly kind: 'fence-lost'; readonly detail: string }
  | { readonly kind: 'store-recreated'; readonly recreated: Recreated; readonly refused: boolean }
  | { readonly kind: 'evicted'; readonly from: number; readonly to: number };

export interface Stepped {
  readonly state: State;
  readonly decisions: readonly Decision[];
}
