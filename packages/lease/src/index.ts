export { checkBucket } from './bucket-check.ts';
export { EXPIRY_SLACK_MS, ExpiryProof, type ExpiryVerdict } from './expiry.ts';
export {
  FENCE_ATTEMPTS_MAX,
  type FenceDecision,
  type FenceEvent,
  type FenceMark,
  type FenceRefusal,
  type FenceSeen,
  type FenceState,
  type FenceStep,
  startFence,
  stepFence,
} from './fence.ts';
export { initial, isTrusted, nextWakeMs, step } from './machine.ts';
export type {
  Decision,
  DoubtReason,
  HostFacts,
  HostVerdict,
  How,
  Identity,
  LeaseEvent,
  LeaseState,
  LossReason,
  Phase,
  Refusal,
  RowRefusal,
  RowSeen,
  Step,
  StoredRow,
  Timing,
} from './model.ts';
export type {
  BucketSettings,
  Clock,
  ExpiryProbePort,
  FencePort,
  HostProbe,
  LeaseHost,
  LeaseRowPort,
  ProbeSeen,
  RowNotice,
  Timers,
} from './ports.ts';
export { refusalError } from './refusal.ts';
export { LeaseRuntime } from './runtime.ts';
export type {
  Acquired,
  Fenced,
  LeaseNotice,
  LeasePorts,
  LeaseSettings,
  LeaseStatus,
} from './surface.ts';
export { TTL_MS_DEFAULT, TTL_MS_MIN, timingOf } from './timing.ts';
