import type { EntryKind, EntryRef } from '@plane3/protocol';
import type { Counters, Limits, Phase, Reason, Recreated, SoundPost } from './model.ts';
import type { Clock, CopyStore, DeadPosts, Directory, PostSource, Timers } from './ports.ts';

export interface FanOutPorts {
  readonly source: PostSource;
  readonly store: CopyStore;
  readonly dead: DeadPosts;
  readonly directory: Directory;
  readonly clock: Clock;
  readonly timers: Timers;
  /** Base64 of the signature over channel, sequence and body, made once per post. */
  readonly sign?: (post: SoundPost) => string;
}

export interface FanOutSettings {
  /** `cotal.<space token>`. */
  readonly prefix: string;
  readonly limits?: Partial<Limits>;
  /** Mention copies one sender may cause in a minute. */
  readonly mentionCopiesMax?: number;
  /** How long `start` waits for the first running state before it answers unknown. */
  readonly startWaitMs?: number;
  /** How long `stop` waits for open writes; afterwards the next start's scan answers for them. */
  readonly stopWaitMs?: number;
  readonly settleWaitMs?: number;
  /** How long a catch-up waits until fan-out itself has passed its range. */
  readonly catchUpWaitMs?: number;
  /** How often a directory that is not current is asked again. */
  readonly directoryPollMs?: number;
}

export interface StoredCopy {
  readonly entry: EntryRef;
  readonly entryId: string;
  readonly storeSeq: number;
  readonly channel: string;
  readonly kind: EntryKind;
  /** The sender's principal, dot form. */
  readonly from: string;
  /** The frame, shared by all copies of the post. Not to be changed. */
  readonly body: Uint8Array;
  readonly signature?: string;
  /** When this process learned that it is stored, wall clock ms. */
  readonly storedAt: number;
}

export type FanOutEvent =
  | { readonly kind: 'phase'; readonly phase: Phase; readonly reason: Reason | undefined }
  | { readonly kind: 'fence-lost'; readonly detail: string }
  | { readonly kind: 'store-recreated'; readonly recreated: Recreated; readonly refused: boolean }
  | { readonly kind: 'evicted'; readonly from: number; readonly to: number }
  | {
      readonly kind: 'quarantined';
      readonly seq: number;
      readonly reason: string;
      readonly detail: string;
    };

export interface FanOutStatus {
  readonly phase: Phase;
  readonly reason: Reason | undefined;
  /** Wall clock ms at which this phase began. */
  readonly since: number;
  /** Whether posts wait because a view behind the directory is not proved current. */
  readonly waitsForDirectory: boolean;
  readonly cursor: { readonly incarnation: string; readonly seq: number } | undefined;
  readonly decided: number | undefined;
  /** Posts that the stored cursor does not cover, those still in the source included. */
  readonly cursorLag: number;
  readonly copiesOpen: number;
  readonly catchUpsOpen: number;
  /** Calls of listeners that threw; always a defect of the host. */
  readonly listenerFaults: number;
  readonly counters: Counters;
}

export type StartRefusal = 'fence-lost' | 'store-recreated' | 'stopped' | 'already-started';
