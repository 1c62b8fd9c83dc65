export type {
  FanOutEvent,
  FanOutPorts,
  FanOutSettings,
  FanOutStatus,
  StartRefusal,
  StoredCopy,
} from './api.ts';
export {
  CATCH_UP_PAGE_POSTS,
  CATCH_UP_TRIES_MAX,
  type CatchUpRefusal,
  type CatchUpRequest,
  type CaughtUp,
} from './catch-up.ts';
export {
  copyHeaders,
  entryOf,
  type HeaderLines,
  type PostHeaders,
  postHeaders,
  publishId,
} from './copy.ts';
export { type DecideContext, decide, MENTIONS_LOOKED_AT_MAX } from './decide.ts';
export { type Judged, judge } from './judge.ts';
export { DEFAULT_LIMITS, initial, step } from './machine.ts';
export {
  MENTION_COPIES_MAX,
  MENTION_WINDOW_MS,
  type MentionBudget,
  mentionBudget,
} from './mention-budget.ts';
export type {
  Answer,
  BurialReason,
  Copy,
  Counters,
  Decision,
  Event,
  FanOutCursor,
  FoundCopy,
  Limits,
  MentionOutcome,
  Owed,
  Phase,
  Plan,
  Post,
  PostInWork,
  Reason,
  Recreated,
  SoundPost,
  StartOptions,
  State,
  Stepped,
  StoreRefusal,
  Trouble,
  Verdict,
} from './model.ts';
export type {
  Burial,
  ChannelPage,
  Clock,
  CopyStore,
  CopyToStore,
  DeadPosts,
  Directory,
  OwedMember,
  PostRun,
  PostSink,
  PostSource,
  ReadRefusal,
  ScannedCopy,
  SourceRefusal,
  SourceState,
  Timers,
} from './ports.ts';
export { ATTEMPTS_MAX } from './proving.ts';
export { type Beginning, beginning } from './recovery.ts';
export { FanOut } from './runtime.ts';
