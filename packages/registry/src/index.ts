export { joinCursorOf, nextGeneration } from './join-cursor.ts';
export { initial, type Step, step } from './machine.ts';
export type {
  CursorSource,
  Decided,
  Frontier,
  GenerationState,
  Interval,
  MembershipRow,
  MembershipState,
  RightAnswer,
  SeqRange,
  StoredRow,
  StoreRefusal,
  WriteRefusal,
} from './membership.ts';
export {
  type Answer,
  type Counters,
  DEFAULT_SETTINGS,
  type Decision,
  type Event,
  type Failure,
  type Joined,
  type Left,
  type Report,
  type Retired,
  type Settings,
  type State,
} from './model.ts';
export type {
  Boundary,
  BoundaryCloser,
  CatchUp,
  CatchUpRange,
  Clock,
  FrontierReader,
  JoinRequest,
  LeaveRequest,
  MayRead,
  MembershipStore,
  Position,
  RegistryPorts,
  StoreSink,
  Timers,
} from './ports.ts';
export { decodeRow, encodeRow, membershipKey, parseMembershipKey } from './row.ts';
export { type ListedMembership, Registry, type RegistryStatus } from './runtime.ts';
