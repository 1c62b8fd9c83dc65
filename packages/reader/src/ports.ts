import type { LifecycleKey, Outcome, RightsRow } from '@plane3/protocol';
import type { AckSeen } from './confirmation.ts';
import type { EntryFacts, StoredEntry } from './model.ts';
import type { GenerationState } from './release-policy.ts';

/**
 * What the reader asks of its surroundings. Nothing here throws for what can happen in service;
 * every answer comes within a bounded time, and a timeout or a lost connection is `unknown`.
 */

export type StoreRefusal = 'missing' | 'permission-denied' | 'rejected';

export interface StorePage {
  /** In store order. */
  readonly entries: readonly StoredEntry[];
  /** Where to go on. */
  readonly nextSeq: number;
  /** Proved: the member has nothing at or above `nextSeq`. A short page is no proof. */
  readonly complete: boolean;
  /** Messages of the member's subject that are no entry; they stay where they are. */
  readonly foreign: number;
}

/**
 * The private member store (`INBOX`). The truth: an entry leaves it only through `remove`.
 *
 * Not in here: writing entries (fan-out does) and any consumer; a shared one would stall for all
 * behind one absent member.
 */
export interface EntryStore {
  /** One page of one member from a store sequence on; never empty while something is left. */
  read(
    member: LifecycleKey,
    fromSeq: number,
    max: { readonly entries: number; readonly bytes: number },
  ): Promise<Outcome<StorePage, StoreRefusal>>;
  /** `false`: it was not there. Harmless when late or repeated. */
  remove(storeSeq: number): Promise<Outcome<boolean, StoreRefusal>>;
  /** Members that have entries, with their number. */
  members(): Promise<Outcome<ReadonlyMap<LifecycleKey, number>, StoreRefusal>>;
}

/** A copy as it lies in the hand-over stream, without its content. */
export interface StoredCopy {
  readonly member: LifecycleKey;
  readonly copySeq: number;
  /** Ns since the epoch as a text. */
  readonly storedNs: string;
  readonly entryId: string;
  readonly handOver: number;
  readonly bytes: number;
}

export interface CopyToHandOver {
  readonly entry: StoredEntry;
  readonly handOver: number;
  /** Ids of copies differ between daemons: a count of an earlier one is never taken for this one's. */
  readonly incarnation: string;
}

export type HandOverAnswer = Outcome<
  { readonly copySeq: number; readonly duplicate: boolean },
  'fence-lost' | StoreRefusal
>;

export interface FloorSeen {
  /** Everything that was handed out up to here was acked, or ended by a TERM. */
  readonly floor: number;
}

/**
 * Where copies lie within the member's reach (`DLV`). Copies only, never the only copy. Every
 * publish carries the fence, so a stale holder's is refused with `fence-lost`.
 */
export interface HandOver {
  useFence(fenceSeq: number): void;
  /** All copies stored now; from then on stored times become known by themselves. */
  open(): Promise<Outcome<readonly StoredCopy[], StoreRefusal>>;
  close(): Promise<void>;
  /**
   * Pipelined; `onAnswer` is called exactly once, after this returns. A `duplicate` is a claim:
   * read the copy back. Repeating an unknown one under the same count is safe and burns its id.
   */
  publish(copy: CopyToHandOver, onAnswer: (answer: HandOverAnswer) => void): void;
  /** Stored time of a copy if it is known without asking. */
  storedNs(copySeq: number): string | undefined;
  /** Leader read; `undefined` is proved absence. */
  readCopy(copySeq: number): Promise<Outcome<StoredCopy | undefined, StoreRefusal>>;
  /** `false`: it was not there. */
  removeCopy(copySeq: number): Promise<Outcome<boolean, StoreRefusal>>;
  /** Takes a member's copies away: all, or those strictly below a sequence. */
  purge(member: LifecycleKey, belowSeq?: number): Promise<Outcome<number, StoreRefusal>>;
  /** Leader read: nothing of the member lies there. */
  isEmpty(member: LifecycleKey): Promise<Outcome<boolean, StoreRefusal>>;
  /** `undefined`: no durable, or one whose floor is no proof. Only sound for copies still stored. */
  floorOf(member: LifecycleKey): Promise<Outcome<FloorSeen | undefined, StoreRefusal>>;
  /** Makes or repairs the member's durable; one that is right is left alone. */
  ensureDurable(
    member: LifecycleKey,
  ): Promise<Outcome<'present' | 'made' | 'repaired', StoreRefusal>>;
  /** Changes when the hand-over stream is recreated, never otherwise. */
  incarnation(): Promise<Outcome<string, StoreRefusal>>;
}

/** Acks of members, as they come; whoever sends one may be lying about everything but its durable. */
export interface Confirmations {
  /** Resolves when they are being heard; a lost one is made up for by the copy's age. */
  open(onAck: (ack: AckSeen) => void): Promise<Outcome<() => void, 'permission-denied'>>;
  /** The member whose durable that is. */
  memberOf(durable: string): LifecycleKey | undefined;
}

export type AttachmentNews =
  /** Fresh presence of this lifecycle, or a pull that waits: there for `forMs` from now. */
  | { readonly kind: 'present'; readonly member: LifecycleKey; readonly forMs: number }
  /** It said good-bye, or its presence ended. A pull may follow. */
  | { readonly kind: 'absent'; readonly member: LifecycleKey };

/** Decides when a copy is handed over, never whether. */
export interface Attachments {
  open(onNews: (news: AttachmentNews) => void): Promise<Outcome<() => void, 'permission-denied'>>;
}

/** The rights rows, in memory. */
export interface Rights {
  rowOf(member: LifecycleKey): RightsRow | undefined;
  /** Whether the view behind it is proved current. */
  isCurrent(): boolean;
}

export interface Memberships {
  /** Answers from memory; `unknown` while its view is not proved current. */
  generationState(m: {
    readonly member: LifecycleKey;
    readonly channel: string;
    readonly generation: number;
  }): GenerationState;
}

export interface Progress {
  /**
   * Whether the fan-out cursor has passed the entry's post (a catch-up copy: the membership is
   * active). Before that a fan-out after a crash would write the entry again.
   */
  mayLeaveStore(entry: EntryFacts): boolean;
}

export interface Clock {
  /** For durations and bounds; never steps. */
  monotonicMs(): number;
  /** For ages of stored entries. */
  wallMs(): number;
}

export interface Timers {
  /** Calls `run` once after `ms`; the returned function cancels. */
  after(ms: number, run: () => void): () => void;
  /** Calls `run` once after what is due already had its turn. */
  soon(run: () => void): void;
}

export interface ReaderPorts {
  readonly store: EntryStore;
  readonly handOver: HandOver;
  readonly confirmations: Confirmations;
  readonly attachments: Attachments;
  readonly rights: Rights;
  readonly memberships: Memberships;
  readonly progress: Progress;
  readonly clock: Clock;
  readonly timers: Timers;
}
