import type { Effect, EndpointCode, SeqRange } from '@plane3/endpoint';
import type { DeliveryClass } from '@plane3/protocol';

/**
 * The join of one channel (wire contract section 6): frontier, live subscription, membership.
 * Pure. Goal-driven: every event changes what is known, and `next` names the one thing to ask for.
 *
 * Loop-backs: a failed list, subscription, join or take-back is retried after a back-off that
 * doubles up to {@link RETRY_MAX_MS}; it ends when the goal holds or the member leaves.
 */
export const RETRY_FIRST_MS = 500;
export const RETRY_MAX_MS = 30_000;

interface Reason {
  readonly code: string;
  readonly text: string;
}

type Ask = 'list' | 'subscribe' | 'join' | 'leave';

export interface JoinState {
  readonly channel: string;
  wanted: boolean;
  /** The one request that is out. */
  asking: Ask | undefined;
  live: 'no' | 'yes' | 'refused';
  /** `maybe`: a join was sent, or an earlier process may have sent one. */
  membership: 'none' | 'maybe' | 'held';
  class: DeliveryClass | 'unknown';
  /** Whether this attempt has asked for the frontier. */
  listed: 'no' | 'yes' | 'failed';
  /** The frontier that the member first asked with: every retry claims this one. */
  frontier: number | undefined;
  generation: number | undefined;
  joinCursor: number | undefined;
  lost: SeqRange | undefined;
  /** Waits for `retry-due`. */
  waiting: boolean;
  attempts: number;
  leaveFailed: boolean;
  reason: Reason | undefined;
}

export type JoinEvent =
  | { readonly type: 'join' }
  | { readonly type: 'leave' }
  | {
      readonly type: 'listed';
      readonly class: DeliveryClass | 'unknown';
      readonly frontier: number | undefined;
    }
  | { readonly type: 'list-failed'; readonly reason: Reason }
  | { readonly type: 'subscribed' }
  /** At once or late. */
  | { readonly type: 'live-refused'; readonly reason: Reason }
  | { readonly type: 'subscribe-failed'; readonly reason: Reason }
  | {
      readonly type: 'joined';
      readonly generation: number;
      readonly joinCursor: number;
      readonly lost: SeqRange | undefined;
    }
  | {
      readonly type: 'join-failed';
      readonly code: EndpointCode;
      readonly text: string;
      readonly outcome: Effect;
    }
  | { readonly type: 'left' }
  | { readonly type: 'leave-failed'; readonly reason: Reason }
  | { readonly type: 'retry-due' };

export type JoinDecision =
  | { readonly kind: 'list' }
  | { readonly kind: 'subscribe' }
  | { readonly kind: 'join'; readonly joinCursor: number | undefined }
  | { readonly kind: 'leave'; readonly generation: number | undefined }
  | { readonly kind: 'unsubscribe' }
  | { readonly kind: 'retry'; readonly afterMs: number }
  /** Nothing is out: who waits for the join or leave can be told the state. */
  | { readonly kind: 'settled' };

/** Codes that time alone does not heal: asked again at the slowest pace only. */
const LASTING: readonly string[] = [
  'permission-denied',
  'unauthenticated',
  'unimplemented',
  'contract-mismatch',
  'contract-invalid',
  'bad-request',
];

export const initialJoin = (channel: string): JoinState => ({
  channel,
  wanted: false,
  asking: undefined,
  live: 'no',
  membership: 'none',
  class: 'unknown',
  listed: 'no',
  frontier: undefined,
  generation: undefined,
  joinCursor: undefined,
  lost: undefined,
  waiting: false,
  attempts: 0,
  leaveFailed: false,
  reason: undefined,
});

export const retryAfterMs = (attempts: number, code: string): number =>
  LASTING.includes(code) ? RETRY_MAX_MS : Math.min(RETRY_MAX_MS, RETRY_FIRST_MS * 2 ** attempts);

/** Changes `s` in place and says what to do. */
export function stepJoin(s: JoinState, event: JoinEvent): readonly JoinDecision[] {
  learn(s, event);
  return next(s);
}

function learn(s: JoinState, e: JoinEvent): void {
  switch (e.type) {
    case 'join':
      if (!s.wanted || s.live === 'refused') {
        s.live = s.live === 'refused' ? 'no' : s.live;
        s.listed = 'no';
        s.frontier = undefined;
        s.attempts = 0;
      }
      s.wanted = true;
      s.waiting = false;
      s.leaveFailed = false;
      return;
    case 'leave':
      s.wanted = false;
      s.waiting = false;
      s.leaveFailed = false;
      // An earlier process of this lifecycle may have joined: only the daemon knows.
      if (s.membership === 'none') s.membership = 'maybe';
      return;
    case 'retry-due':
      s.waiting = false;
      s.leaveFailed = false;
      if (s.membership !== 'held') s.listed = 'no';
      return;
    case 'live-refused':
      if (s.asking === 'subscribe') s.asking = undefined;
      s.live = 'refused';
      s.waiting = false;
      s.reason = e.reason;
      return;
    default:
      answer(s, e);
  }
}

type Answer = Exclude<
  JoinEvent,
  { readonly type: 'join' | 'leave' | 'retry-due' | 'live-refused' }
>;

function answer(s: JoinState, e: Answer): void {
  s.asking = undefined;
  switch (e.type) {
    case 'listed':
      s.listed = 'yes';
      s.class = e.class;
      s.frontier ??= e.frontier;
      if (e.class === 'live') s.reason = undefined;
      return;
    case 'list-failed':
      s.listed = 'failed';
      s.reason = e.reason;
      return;
    case 'subscribed':
      s.live = 'yes';
      return;
    case 'subscribe-failed':
      s.reason = e.reason;
      s.waiting = true;
      return;
    case 'joined':
      s.membership = 'held';
      s.generation = e.generation;
      s.joinCursor = e.joinCursor;
      s.lost = e.lost;
      s.attempts = 0;
      if (s.live !== 'refused') s.reason = undefined;
      return;
    case 'join-failed':
      if (e.outcome !== 'not-executed') s.membership = 'maybe';
      s.reason = { code: e.code, text: e.text };
      s.waiting = true;
      return;
    case 'left':
      s.membership = 'none';
      s.generation = undefined;
      s.joinCursor = undefined;
      s.frontier = undefined;
      s.listed = 'no';
      if (s.live !== 'refused') s.reason = undefined;
      return;
    case 'leave-failed':
      s.leaveFailed = true;
      s.reason = e.reason;
  }
}

function ask(s: JoinState, what: Ask, decision: JoinDecision): readonly JoinDecision[] {
  s.asking = what;
  return [decision];
}

function retryLater(s: JoinState): readonly JoinDecision[] {
  const afterMs = retryAfterMs(s.attempts++, s.reason?.code ?? '');
  s.waiting = true;
  return [{ kind: 'settled' }, { kind: 'retry', afterMs }];
}

function next(s: JoinState): readonly JoinDecision[] {
  if (s.asking !== undefined) return [];
  return s.wanted && s.live !== 'refused' ? towardsJoined(s) : towardsGone(s);
}

function towardsJoined(s: JoinState): readonly JoinDecision[] {
  if (s.waiting) return retryLater(s);
  if (s.listed === 'no' && s.membership !== 'held') return ask(s, 'list', { kind: 'list' });
  if (s.live !== 'yes') return ask(s, 'subscribe', { kind: 'subscribe' });
  if (s.class === 'live' || s.membership === 'held') return [{ kind: 'settled' }];
  if (s.listed === 'failed') return retryLater(s);
  return ask(s, 'join', { kind: 'join', joinCursor: s.frontier });
}

function towardsGone(s: JoinState): readonly JoinDecision[] {
  const off: JoinDecision[] = [];
  if (s.live === 'yes') {
    s.live = 'no';
    off.push({ kind: 'unsubscribe' });
  }
  if (s.membership === 'none') return [...off, { kind: 'settled' }];
  // A membership that must be taken back is tried until it is; a leave is told as failed, once.
  if (s.leaveFailed) return s.wanted ? [...off, ...retryLater(s)] : [...off, { kind: 'settled' }];
  return [...off, ...ask(s, 'leave', { kind: 'leave', generation: s.generation })];
}

/** What the member says of a channel; never more than holds. */
export interface JoinReport {
  readonly channel: string;
  /** The broker accepted the live subscription. */
  readonly live: boolean;
  /** The daemon confirmed the membership, and the live subscription stands. */
  readonly durable: boolean;
  readonly class: DeliveryClass | 'unknown';
  readonly generation: number | undefined;
  readonly joinCursor: number | undefined;
  /** Posts between the first join and this one that cannot be caught up. */
  readonly lost: SeqRange | undefined;
  readonly reason: string | undefined;
  /** Whether it is still being tried. */
  readonly retrying: boolean;
  readonly text: string;
}

export function reportOf(s: JoinState): JoinReport {
  const live = s.live === 'yes';
  const durable = live && s.membership === 'held';
  const reason = s.reason === undefined ? undefined : `${s.reason.code}: ${s.reason.text}`;
  return {
    channel: s.channel,
    live,
    durable,
    class: s.class,
    generation: durable ? s.generation : undefined,
    joinCursor: durable ? s.joinCursor : undefined,
    lost: durable ? s.lost : undefined,
    reason: durable ? undefined : reason,
    retrying: s.wanted && s.waiting,
    text: textOf(s, live, durable, reason),
  };
}

function textOf(s: JoinState, live: boolean, durable: boolean, reason: string | undefined): string {
  if (durable) return 'joined durable';
  if (live && s.class === 'live') return 'joined live';
  if (live) return `joined live, durable backstop unestablished (${reason ?? 'not asked yet'})`;
  return reason === undefined ? 'not joined' : `not joined (${reason})`;
}
