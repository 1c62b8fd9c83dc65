import type { EntryKind, EntryRef, LifecycleKey } from '@plane3/protocol';
import type { Disposal, Doubt, Verdict, Withholding } from './release-policy.ts';

/** An entry of the member store without its content. */
export interface EntryFacts {
  readonly entry: EntryRef;
  /** Store id, see `entryId` of the protocol package. */
  readonly entryId: string;
  /** Sequence in the member store. */
  readonly storeSeq: number;
  readonly channel: string;
  readonly kind: EntryKind;
  /** The sender's principal, dot form. */
  readonly from: string;
  /** Wall clock ms. */
  readonly storedAt: number;
}

/** With the frame that is handed over as it is. Bodies are shared between copies: not to be changed. */
export interface StoredEntry extends EntryFacts {
  readonly body: Uint8Array;
  readonly signature?: string;
}

/**
 * - `absent`: nothing of the member is held, nothing of it lies in the hand-over stream.
 * - `attached`: copies may be handed over.
 * - `lingering`: gone for less than the grace; its copies stay, no new one is handed over.
 */
export type Attachment = 'absent' | 'attached' | 'lingering';

interface HeldBase {
  readonly facts: EntryFacts;
  readonly bytes: number;
  /** How often this entry was handed over, this time included; 1 is the first. */
  readonly handOver: number;
}

/** The publish is not answered yet: the copy may lie in the hand-over stream or not. */
export interface Issuing extends HeldBase {
  readonly state: 'issuing';
  readonly stored: StoredEntry;
  /** A late ack of an earlier copy came meanwhile. */
  readonly confirmed: boolean;
}

export interface HandedOver extends HeldBase {
  readonly state: 'handed-over';
  readonly copySeq: number;
  readonly sinceMs: number;
  /** Stored timestamp of the copy; unknown until somebody had to know it. */
  readonly storedNs: string | undefined;
  /** What an ack said the timestamp is, while it is being learnt. */
  readonly claim: { readonly storedNs: string; readonly meaning: 'confirm' | 'refuse' } | undefined;
}

/** Confirmed or to be disposed of, and still in the store until it may leave it. */
export interface Leaving extends HeldBase {
  readonly state: 'leaving';
  readonly cause: LeaveCause;
}

/**
 * What is not held is `pending` (not read yet), `withheld` or `deferred`: those three live in the
 * store only, so that memory follows the window and not the backlog.
 */
export type Held = Issuing | HandedOver | Leaving;
export type LeaveCause = 'confirmed' | Disposal;

/** Why an entry is passed over for now; `refused` by the member itself, in this attachment. */
export type PassedOver =
  | Withholding
  | 'refused'
  /** A fault of our own: the hand-over stream did not take it. */
  | 'not-published'
  /** Nobody can tell about an earlier entry of its channel. */
  | 'behind-a-doubt';

export interface Limits {
  /** Unconfirmed copies of one member, and their bytes. */
  readonly windowEntries: number;
  readonly windowBytes: number;
  /** Entries read ahead of the window. */
  readonly queueEntries: number;
  readonly queueBytes: number;
  /** Issuing, handed over and leaving together. */
  readonly heldMax: number;
  readonly ackWaitMs: number;
  readonly detachGraceMs: number;
  /** A copy unconfirmed for this long is taken back and handed over anew. */
  readonly copyAgeMs: number;
  readonly retryFirstMs: number;
  readonly retryCeilingMs: number;
  readonly refusedMax: number;
}

/** One member. Changed in place by `step`; nobody else writes it. */
export interface MemberState {
  readonly member: LifecycleKey;
  readonly limits: Limits;
  attachment: Attachment;
  attachedUntilMs: number;
  lingerUntilMs: number;
  /** While above zero nothing is issued: a retraction is under way. */
  holds: number;
  /** Every entry below is held, left, passed over or in the queue. */
  cursor: number;
  /** Nothing lies at or above the cursor as far as anybody knows. */
  atEnd: boolean;
  /** The read under way; a result with another number is of no use. */
  reading: number | undefined;
  readCount: number;
  /** Something was stored behind the read under way. */
  storedMeanwhile: boolean;
  /** What left the store during the read under way: its result may still hold it. */
  readonly leftMeanwhile: Set<number>;
  queue: StoredEntry[];
  queueBytes: number;
  readonly held: Map<number, Held>;
  readonly byCopy: Map<number, number>;
  issuing: number;
  openEntries: number;
  openBytes: number;
  /** Entries passed over in the current pass, by reason, and the first of them. */
  passedOver: Map<PassedOver | Doubt, number>;
  passedOverFrom: number | undefined;
  /** Channels that wait behind an entry about which nobody can tell: their order stays. */
  readonly blocked: Set<string>;
  retryAtMs: number | undefined;
  /** A read failed: no other before the retry. */
  stalled: boolean;
  retries: number;
  readonly refused: Set<number>;
  /** Hand-over counts of entries that were taken back. */
  readonly handOvers: Map<number, number>;
  /** Acks that overtook the answer to their own publish. */
  readonly early: Map<
    number,
    { readonly storedNs: string; readonly meaning: 'confirm' | 'refuse' }
  >;
  progressAtMs: number;
  /** The watchdog re-reads: the next hand-over is its doing. */
  watching: boolean;
  detaching: boolean;
}

export interface AdoptedCopy {
  readonly facts: EntryFacts;
  readonly bytes: number;
  readonly handOver: number;
  readonly copySeq: number;
  readonly storedNs: string;
}

export type Event =
  | { readonly kind: 'attach'; readonly nowMs: number; readonly untilMs: number }
  | { readonly kind: 'detach'; readonly nowMs: number }
  /** Copies found at start; the member may be there or not. */
  | { readonly kind: 'adopt'; readonly nowMs: number; readonly copies: readonly AdoptedCopy[] }
  | { readonly kind: 'stored'; readonly entry: StoredEntry }
  | {
      readonly kind: 'read';
      readonly readId: number;
      readonly entries: readonly StoredEntry[];
      readonly nextSeq: number;
      readonly complete: boolean;
    }
  | { readonly kind: 'read-failed'; readonly readId: number; readonly nowMs: number }
  | { readonly kind: 'turn'; readonly nowMs: number; readonly budget: number }
  | {
      readonly kind: 'published';
      readonly storeSeq: number;
      readonly copySeq: number;
      readonly storedNs: string | undefined;
      readonly nowMs: number;
    }
  /** The broker called it a duplicate and no such copy can be read: this count is used up. */
  | { readonly kind: 'burnt'; readonly storeSeq: number }
  | { readonly kind: 'not-published'; readonly storeSeq: number; readonly nowMs: number }
  | {
      readonly kind: 'ack';
      readonly meaning: 'confirm' | 'refuse';
      readonly copySeq: number;
      readonly storedNs: string;
      readonly nowMs: number;
    }
  /** The stored time of a copy, or that it provably is not stored any more. */
  | {
      readonly kind: 'learnt';
      readonly copySeq: number;
      readonly storedNs: string | undefined;
      readonly nowMs: number;
    }
  /** A copy that was taken back was confirmed all the same. */
  | { readonly kind: 'late'; readonly facts: EntryFacts; readonly nowMs: number }
  | { readonly kind: 'left'; readonly storeSeq: number }
  | { readonly kind: 'hold' }
  | { readonly kind: 'resume' }
  /** These copies are proved gone from the hand-over stream. */
  | { readonly kind: 'taken-back'; readonly storeSeqs: readonly number[]; readonly nowMs: number }
  /** Rights or memberships changed. */
  | { readonly kind: 'rejudge'; readonly nowMs: number }
  | { readonly kind: 'tick'; readonly nowMs: number };

export type RecallCause = 'not-allowed' | 'expired';

export type CountedHere =
  | 'ack-of-another-copy'
  | 'ack-of-a-vanished-copy'
  | 'refused-by-member'
  | 'watchdog-repair';

export type Decision =
  | { readonly kind: 'read'; readonly readId: number; readonly fromSeq: number }
  | { readonly kind: 'publish'; readonly entry: StoredEntry; readonly handOver: number }
  | { readonly kind: 'learn'; readonly copySeq: number }
  | {
      readonly kind: 'leave';
      readonly facts: EntryFacts;
      readonly cause: LeaveCause;
      readonly copySeq: number | undefined;
    }
  /** The copy has no use any more, its entry stays. */
  | { readonly kind: 'drop-copy'; readonly copySeq: number }
  /** The member refused it: a copy that still lies there would look like a taken one at a start. */
  | { readonly kind: 'remove-refused'; readonly copySeq: number }
  | {
      readonly kind: 'recall';
      readonly storeSeqs: readonly number[];
      readonly cause: RecallCause;
    }
  /** Gone for longer than the grace: take everything back and forget the member. */
  | { readonly kind: 'detached' }
  /** No copy of this member has that sequence. */
  | { readonly kind: 'unknown-copy'; readonly copySeq: number; readonly storedNs: string }
  | { readonly kind: 'count'; readonly what: CountedHere };

/** The release rule over the facts of this very moment; asked again at each hand-over. */
export type Judge = (entry: EntryFacts) => Verdict;

export interface Stepped {
  readonly state: MemberState;
  readonly decisions: readonly Decision[];
}
