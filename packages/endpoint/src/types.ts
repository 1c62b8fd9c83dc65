import type { DeliveryClass, Lifecycle } from '@plane3/protocol';
import type { Detail, Effect, EndpointCode, Sender } from './envelope.ts';

/** Arguments and results as the schemas of the contract describe them (wire contract section 6). */
type None = Readonly<Record<string, never>>;

export interface SeqRange {
  readonly from: number;
  readonly to: number;
}

export interface JoinArgs {
  readonly channel: string;
  /** The frontier that the member first asked with; a claim, never taken without a check. */
  readonly joinCursor?: number;
}
export interface JoinData {
  readonly durable: true;
  readonly generation: number;
  readonly joinCursor: number;
  readonly cursorSource: 'client' | 'frontier';
  readonly lost?: SeqRange;
}
export interface LeaveArgs {
  readonly channel: string;
  readonly generation?: number;
}
export interface LeaveData {
  readonly channel: string;
  readonly leaveCursor: number;
  readonly disposed: number;
  readonly alreadyLeft?: boolean;
}
export interface ListedMembership {
  readonly channel: string;
  readonly generation: number;
  readonly joinCursor: number;
  readonly activated: boolean;
}
export interface ListedGap extends SeqRange {
  readonly channel: string;
  readonly reason: string;
}
export interface ListedChannel {
  readonly channel: string;
  readonly class: DeliveryClass;
  readonly frontier: number;
}
export interface ListData {
  readonly memberships: readonly ListedMembership[];
  readonly gaps: readonly ListedGap[];
  readonly channels: readonly ListedChannel[];
}
export type AttachMode = 'direct' | 'dlv';
export interface AttachArgs {
  readonly mode: AttachMode;
  /** Unconfirmed copies at most. */
  readonly window: number;
  /** Unconfirmed bytes at most. */
  readonly bytes: number;
}
export interface AttachData {
  readonly mode: AttachMode;
  readonly window: number;
  readonly renewMs: number;
  /** Copies that wait on the member's durable once the answer is sent. */
  readonly handedOver?: number;
}
export interface DetachArgs {
  readonly mode: AttachMode;
  readonly window?: number;
  readonly bytes?: number;
}
export interface DetachData {
  readonly mode: AttachMode;
  readonly window?: number;
  readonly renewMs?: number;
}
export interface HealthData {
  readonly state: string;
  readonly incarnation: string;
  readonly since: number;
  readonly observedAt: number;
}
export interface StatusPart {
  readonly state: string;
  readonly since: number;
  readonly reason?: string;
  readonly counters?: Readonly<Record<string, number>>;
  readonly facts?: Readonly<Record<string, string>>;
}
export interface StatusData extends HealthData {
  readonly lease: { readonly holder: string; readonly ageMs: number };
  readonly parts: Readonly<Record<string, StatusPart>>;
  readonly reason?: string;
  readonly pid?: number;
}
export interface PendingArgs {
  readonly member?: string;
}
export interface PendingMember {
  readonly member: string;
  readonly uid: string;
  readonly pending: number;
  readonly handedOver: number;
  readonly withheld: Readonly<Record<string, number>>;
  readonly oldestAgeMs: number | null;
  readonly attempts?: number;
  readonly attached?: boolean;
}
export interface PendingData {
  readonly members: readonly PendingMember[];
  readonly asOf: number;
}
export interface MembersArgs {
  readonly channel: string;
}
export interface ChannelMember {
  readonly member: string;
  readonly uid: string;
  readonly generation: number;
  readonly state: string;
  readonly joinCursor: number;
  readonly leaveCursor?: number;
  readonly activated?: boolean;
}
export interface MembersData {
  readonly channel: string;
  readonly members: readonly ChannelMember[];
  readonly asOf: number;
}
export interface SettledArgs {
  readonly bucket: string;
  readonly revision: number;
}
export interface SettledData extends SettledArgs {
  readonly applied: number;
}

/** Command → its arguments and result. `describe` is answered by the endpoint itself. */
export interface DeliveryCalls {
  readonly join: { readonly args: JoinArgs; readonly data: JoinData };
  readonly leave: { readonly args: LeaveArgs; readonly data: LeaveData };
  readonly list: { readonly args: None; readonly data: ListData };
  readonly attach: { readonly args: AttachArgs; readonly data: AttachData };
  readonly detach: { readonly args: DetachArgs; readonly data: DetachData };
  readonly health: { readonly args: None; readonly data: HealthData };
  readonly status: { readonly args: None; readonly data: StatusData };
  readonly pending: { readonly args: PendingArgs; readonly data: PendingData };
  readonly members: { readonly args: MembersArgs; readonly data: MembersData };
  readonly settled: { readonly args: SettledArgs; readonly data: SettledData };
}
export type DeliveryCommand = keyof DeliveryCalls;

export interface HandlerContext {
  /** From the subject, which the broker vouches for. */
  readonly caller: Lifecycle;
  /** What the caller says of itself; only its id is checked. */
  readonly from: Sender;
  /** What is left when the handler begins, a duration. */
  readonly deadlineMs: number;
  /** Aborted at the deadline and when the endpoint stops. */
  readonly signal: AbortSignal;
}

export type HandlerResult<T = unknown> =
  | { readonly ok: true; readonly data: T }
  | {
      readonly ok: false;
      readonly code: EndpointCode;
      readonly message: string;
      readonly details?: readonly Detail[] | undefined;
      readonly outcome: Effect;
    };

/** Never needs to catch: what it throws becomes `internal` with outcome `unknown`. */
export type Handler<A = unknown, T = unknown> = (
  context: HandlerContext,
  args: A,
) => Promise<HandlerResult<T>>;

/** Handlers by command; a command without one answers `unimplemented`. */
export type DeliveryHandlers = {
  readonly [C in DeliveryCommand]?: Handler<DeliveryCalls[C]['args'], DeliveryCalls[C]['data']>;
};
