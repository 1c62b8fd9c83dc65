export {
  REFUSAL_LOG_EVERY_MS,
  REFUSALS_KEPT,
  type RefusedRequest,
  type WriterCounts,
} from './counters.ts';
export { CLOCK_SKEW_MS_MAX, decide, mayHaveFired } from './decide.ts';
export { judge, REQUEST_BYTES_MAX } from './judge.ts';
export {
  backOffMs,
  type FailureKind,
  initial,
  type Step,
  SUPERVISOR_SETTINGS,
  type SupervisorDecision,
  type SupervisorEvent,
  type SupervisorSettings,
  type SupervisorState,
  step,
} from './machine.ts';
export {
  type Armed,
  type ArmedBody,
  type ArmedSeen,
  type ArmOrder,
  type CheckpointSeen,
  DECIDE_LIMITS,
  type DecideInput,
  type DecideLimits,
  type Decision,
  type FiredSeen,
  type JudgedRequest,
  REFUSAL_REASONS,
  type Refusal,
  type RefusalReason,
  type RequestFacts,
} from './model.ts';
export type {
  ArmRefusal,
  Checkpoints,
  Clock,
  Delivery,
  OpenRefusal,
  RequestSource,
  Schedules,
  ScheduleWriterPorts,
  Session,
  Sessions,
  SourceRefusal,
  Timers,
  WriterEvent,
} from './ports.ts';
export { ARM_ATTEMPTS_MAX, OUTAGES_MAX } from './pump.ts';
export {
  ScheduleWriter,
  type ScheduleWriterSettings,
  type WriterStateName,
  type WriterStatus,
} from './runtime.ts';
