import type { Outcome } from '@plane3/protocol';

/**
 * The fence of one stream. Before a new holder reads anything it puts its mark on the stream's
 * fence subject; every write of a holder then names the sequence of its mark as the expected last
 * sequence of that subject. A successor's mark moves it, so that whatever an old holder still has
 * in its sockets is refused by the broker (I25).
 *
 * The mark is written by compare-and-set over what was read, and used only after one renewal that
 * began later was confirmed (the runtime does that, once for all streams): a holder that lost the
 * lease before its mark cannot use it, and one that loses it later is fenced by its successor.
 *
 * A mark with a higher lease revision than mine is a successor's, and I am stale; or the bucket's
 * numbering began anew (recreated, restored, cut back by a power loss). A renewal tells the two
 * apart: it succeeds only if nobody has written the row since my term began.
 */
export interface FenceMark {
  readonly incarnation: string;
  /** Revision with which the term began. */
  readonly leaseRevision: number;
  /** Wall clock, ms: for the reader only. */
  readonly at: number;
}

/** `mark` undefined: something is stored there that is no mark; it is overwritten. */
export interface FenceSeen {
  readonly seq: number;
  readonly mark: FenceMark | undefined;
}

export type FenceRefusal = 'conflict' | 'permission-denied' | 'missing' | 'rejected';

/** Rounds of one establishing. Each conflict is another holder's mark: more is no race. */
export const FENCE_ATTEMPTS_MAX = 16;

export interface FenceState {
  readonly phase: 'reading' | 'proving' | 'writing' | 'established' | 'refused';
  readonly mark: FenceMark;
  readonly attempts: number;
  /** Last sequence read on the subject; 0: none. */
  readonly seq: number;
}

export type FenceEvent =
  | { readonly kind: 'read'; readonly answer: Outcome<FenceSeen | undefined, FenceRefusal> }
  | { readonly kind: 'proved'; readonly held: boolean }
  | { readonly kind: 'written'; readonly answer: Outcome<number, FenceRefusal> };

export type FenceDecision =
  | { readonly kind: 'read' }
  /** Renew the lease and say whether it was confirmed. */
  | { readonly kind: 'prove' }
  | { readonly kind: 'write'; readonly mark: FenceMark; readonly expectedSeq: number }
  | { readonly kind: 'established'; readonly seq: number }
  | {
      readonly kind: 'refused';
      readonly reason: 'superseded' | 'unanswered' | Exclude<FenceRefusal, 'conflict'>;
      readonly detail: string;
    };

export interface FenceStep {
  readonly state: FenceState;
  readonly decision: FenceDecision;
}

export const startFence = (mark: FenceMark): FenceStep =>
  readAgain({ phase: 'reading', mark, attempts: 0, seq: 0 }, '');

export function stepFence(s: FenceState, e: FenceEvent): FenceStep {
  switch (e.kind) {
    case 'read':
      return onRead(s, e.answer);
    case 'proved':
      return e.held
        ? writeMark(s)
        : refuse(
            s,
            'superseded',
            `a later mark is at sequence ${s.seq}, and the lease is not mine`,
          );
    case 'written': {
      const { answer } = e;
      if (answer.kind === 'done') return established(s, answer.value);
      if (answer.kind === 'unknown') return readAgain(s, answer.cause);
      if (answer.reason === 'conflict') return readAgain(s, answer.detail);
      return refuse(s, answer.reason, answer.detail);
    }
  }
}

function onRead(s: FenceState, answer: Outcome<FenceSeen | undefined, FenceRefusal>): FenceStep {
  if (answer.kind === 'unknown') return readAgain(s, answer.cause);
  if (answer.kind === 'refused')
    return answer.reason === 'conflict'
      ? readAgain(s, answer.detail)
      : refuse(s, answer.reason, answer.detail);
  const seen = answer.value;
  const at = { ...s, seq: seen?.seq ?? 0 };
  const there = seen?.mark;
  if (there === undefined) return writeMark(at);
  const { incarnation, leaseRevision } = s.mark;
  // My own mark of this term: an unanswered write that landed.
  if (there.incarnation === incarnation && there.leaseRevision === leaseRevision)
    return established(at, at.seq);
  if (there.leaseRevision < leaseRevision) return writeMark(at);
  return { state: { ...at, phase: 'proving' }, decision: { kind: 'prove' } };
}

function readAgain(s: FenceState, why: string): FenceStep {
  if (s.attempts >= FENCE_ATTEMPTS_MAX) return refuse(s, 'unanswered', why);
  const state: FenceState = { ...s, phase: 'reading', attempts: s.attempts + 1 };
  return { state, decision: { kind: 'read' } };
}

const writeMark = (s: FenceState): FenceStep => ({
  state: { ...s, phase: 'writing' },
  decision: { kind: 'write', mark: s.mark, expectedSeq: s.seq },
});

const established = (s: FenceState, seq: number): FenceStep => ({
  state: { ...s, phase: 'established', seq },
  decision: { kind: 'established', seq },
});

const refuse = (
  s: FenceState,
  reason: Extract<FenceDecision, { kind: 'refused' }>['reason'],
  detail: string,
): FenceStep => ({
  state: { ...s, phase: 'refused' },
  decision: { kind: 'refused', reason, detail },
});
