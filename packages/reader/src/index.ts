export {
  type AckMeaning,
  type AckPayload,
  type AckSeen,
  meaningOf,
  payloadOf,
} from './confirmation.ts';
export type { Counters } from './counters.ts';
export type { ReaderEvent } from './desk.ts';
export { initial, isReady, LOOP_BACKS, step } from './machine.ts';
export type {
  AdoptedCopy,
  Attachment,
  CountedHere,
  Decision,
  EntryFacts,
  Event,
  HandedOver,
  Held,
  Issuing,
  Judge,
  LeaveCause,
  Leaving,
  Limits,
  MemberState,
  PassedOver,
  RecallCause,
  Stepped,
  StoredEntry,
} from './model.ts';
export type {
  AttachmentNews,
  Attachments,
  Clock,
  Confirmations,
  CopyToHandOver,
  EntryStore,
  FloorSeen,
  HandOver,
  HandOverAnswer,
  Memberships,
  Progress,
  ReaderPorts,
  Rights,
  StoredCopy,
  StorePage,
  StoreRefusal,
  Timers,
} from './ports.ts';
export {
  type Disposal,
  type Doubt,
  type GenerationState,
  type Interval,
  type JudgedEntry,
  judgeRelease,
  type ReleaseFacts,
  type Verdict,
  type Withholding,
} from './release-policy.ts';
export { type Explanation, Reader, type ReaderRefusal, type ReaderStatus } from './runtime.ts';
export {
  copyTtlMs,
  limitsOf,
  READER_DEFAULTS,
  type ReaderSettings,
  settingsOf,
} from './settings.ts';
export type { Disposing, EntryState, PendingCounts } from './walking.ts';
