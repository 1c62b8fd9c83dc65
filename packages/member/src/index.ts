export { type Copy, confirmSeen, Dedup, type Path, type Seen, type Verdict } from './dedup.ts';
export {
  initialJoin,
  type JoinDecision,
  type JoinEvent,
  type JoinReport,
  type JoinState,
  RETRY_FIRST_MS,
  RETRY_MAX_MS,
  reportOf,
  retryAfterMs,
  stepJoin,
} from './join-machine.ts';
export {
  type LeaveRefusal,
  Member,
  type MemberOptions,
  type MemberState,
  openMember,
} from './member.ts';
export type {
  ConfirmRefusal,
  Counts,
  Guarantee,
  Health,
  Item,
  LeaveReport,
  Notice,
  PostOptions,
  Receipt,
  Received,
  ReceiveOptions,
} from './model.ts';
export type { PostRefusal } from './post.ts';
export { PostKeys } from './post-key.ts';
