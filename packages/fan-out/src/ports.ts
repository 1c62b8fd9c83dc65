import type { DeliveryClass, Lifecycle, LifecycleKey, Outcome } from '@plane3/protocol';
import type { HeaderLines } from './copy.ts';
import type { Answer, BurialReason, FanOutCursor, FoundCopy, Post } from './model.ts';

/**
 * What fan-out asks of its surroundings. Nothing here throws for what can happen in service;
 * every answer comes within a bounded time, and a timeout or a lost connection is `unknown`.
 */

export interface SourceState {
  /** Changes when the channel stream is recreated, never otherwise. */
  readonly incarnation: string;
  /** First sequence that is still kept; above `lastSeq` when the stream is empty. */
  readonly firstSeq: number;
  readonly lastSeq: number;
}

export type SourceRefusal = 'missing' | 'permission-denied' | 'rejected';

export interface PostSink {
  /** Called in stream order, without gaps among what the stream keeps, each post once. */
  post(post: Post): void;
  /**
   * The run can prove its order no longer: connection lost, consumer gone or replaced, a post
   * missing. Called at most once; no post follows. The way on is a new `open`.
   */
  broken(detail: string): void;
}

/** One reading of the source from one sequence on. */
export interface PostRun {
  /** Allows `count` more posts. Nothing comes that was not asked for. */
  ask(count: number): void;
  /** Every post up to `seq` is covered by the stored cursor. Only a courtesy to the broker's view. */
  passed(seq: number): void;
  /** No post after this returns. */
  close(): void;
}

export interface ChannelPage {
  readonly posts: readonly Post[];
  /** Where to go on; `undefined`: the range is read to its end. */
  readonly nextSeq: number | undefined;
  /**
   * Posts of the channel within the asked range, up to and including this sequence, are gone or
   * may be: 0 when every post of the range is provably still kept.
   */
  readonly evictedThrough: number;
}

/**
 * The channel stream (`CHAT`). It lies in the account that agents reach: whatever it says about a
 * post beyond sequence, subject, time and body is not trusted.
 *
 * Not in here: where to start (the stored cursor decides) and acknowledging single posts.
 */
export interface PostSource {
  /** Answered by the stream's leader. */
  state(): Promise<Outcome<SourceState, SourceRefusal>>;
  /** Begins at `fromSeq`, wherever an earlier run stood. At most one run is open at a time. */
  open(fromSeq: number, sink: PostSink): Promise<Outcome<PostRun, SourceRefusal>>;
  /**
   * Posts of one channel in [fromSeq, toSeq], at most `postsMax` of them, in order. Complete up to
   * `nextSeq`: a short answer is never taken for the end.
   */
  read(range: {
    readonly channel: string;
    readonly fromSeq: number;
    readonly toSeq: number;
    readonly postsMax: number;
  }): Promise<Outcome<ChannelPage, SourceRefusal>>;
}

/** A copy as it is written to the member store. */
export interface CopyToStore {
  readonly member: LifecycleKey;
  /** All but the fence's. */
  readonly headers: HeaderLines;
  /** Shared by all copies of a post: written by reference. */
  readonly body: Uint8Array;
}

export interface ScannedCopy extends FoundCopy {
  readonly member: LifecycleKey;
  readonly incarnation: string;
  /** Sequence of the post. */
  readonly seq: number;
}

export type ReadRefusal = 'missing' | 'permission-denied' | 'rejected';

/**
 * The member store (`INBOX`): the mixed private store that no agent reads. Every write carries
 * the fence, so that a stale holder's write is refused with `fence-lost` whatever its clock says.
 *
 * `stored` with `duplicate` is a claim, not a proof: the caller reads the sequence back.
 */
export interface CopyStore {
  /** Sequence of the fence message that every later write expects to be the last one. */
  useFence(fenceSeq: number): void;
  /**
   * Pipelined; `onAnswer` is called exactly once, possibly before `put` returns. What the broker
   * does not take at its size, headers counted, is refused as `too-large`, never sent.
   */
  put(copy: CopyToStore, onAnswer: (answer: Answer) => void): void;
  /** Leader read. Whether the message at `storeSeq` is the copy with this store id. */
  isCopy(storeSeq: number, entry: string): Promise<Outcome<boolean, ReadRefusal>>;
  /** Leader read; `undefined` only when there provably is none. */
  readCursor(): Promise<Outcome<FanOutCursor | undefined, ReadRefusal>>;
  /** `writer` and `at` are for people; the fence decides who may write. */
  writeCursor(
    cursor: FanOutCursor,
    note: {
      readonly writer: string;
      readonly at: number;
      readonly revisions: Readonly<Record<string, number>>;
    },
  ): Promise<Answer>;
  /**
   * Every copy above `storeFloor`, or of one member from the beginning. Complete: it reaches the
   * sequence that the leader named as last when the scan began, which `done` carries; a replica
   * that lags is `unknown`.
   */
  scan(
    what: { readonly storeFloor: number } | { readonly member: LifecycleKey },
    onCopy: (copy: ScannedCopy) => void,
  ): Promise<Outcome<{ readonly storeSeq: number }, ReadRefusal>>;
}

export interface Burial {
  readonly incarnation: string;
  readonly post: Post;
  readonly reason: BurialReason;
  readonly detail: string;
}

/** Dead posts (`DEAD`, subject `_post`): what can never be copied, with reason and sequence. */
export interface DeadPosts {
  /** Stores it under an id of incarnation and sequence. A body too large for it is left out and said so. */
  bury(burial: Burial, onAnswer: (answer: Answer) => void): void;
  /** Sequences of this incarnation's posts that lie above `deadFloor`, and the stream's last sequence. */
  buriedAbove(
    deadFloor: number,
    incarnation: string,
  ): Promise<
    Outcome<{ readonly seqs: ReadonlySet<number>; readonly deadSeq: number }, ReadRefusal>
  >;
}

export interface OwedMember {
  readonly member: LifecycleKey;
  readonly generation: number;
}

/**
 * Who belongs where and who may read what; composed from registry and rights. All of it in
 * memory, so that a decision waits for nothing. Answers hold only while `isCurrent()`.
 */
export interface Directory {
  classOf(channel: string): DeliveryClass;
  /** Members whose interval contains `seq`: joined before it, not left, in state joining or active. */
  membersOf(channel: string, seq: number): Iterable<OwedMember>;
  /** A lowercased name among the rights rows of those not retired; never presence. */
  resolveMention(name: string): Lifecycle | 'none' | 'ambiguous';
  mayRead(member: LifecycleKey, channel: string): boolean;
  /** Whether every view behind it is proved current. While not, fan-out waits; it does not guess. */
  isCurrent(): boolean;
  /** Revisions of the views, recorded with the cursor. */
  revisions?(): Readonly<Record<string, number>>;
}

export interface Clock {
  /** For durations and bounds; never steps. */
  monotonicMs(): number;
  /** For notes to people. */
  wallMs(): number;
}

export interface Timers {
  /** Calls `run` once after `ms`; the returned function cancels. */
  after(ms: number, run: () => void): () => void;
}
