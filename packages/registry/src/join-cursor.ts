import type { CursorSource, Frontier, MembershipRow, SeqRange } from './membership.ts';
import type { Settings } from './model.ts';

export interface JoinCursor {
  readonly joinCursor: number;
  readonly cursorSource: CursorSource;
  /** What lies between the claim and the frontier, where the claim is too old to be kept. */
  readonly lost?: SeqRange;
}

/**
 * A member never asserts its own membership (wire contract section 6): the cursor it claims
 * holds only if it is a place that the frontier stood at within the window, and behind the end of
 * its own earlier interval. Any other is replaced by the frontier.
 */
export function joinCursorOf(
  claimed: number | undefined,
  frontier: Frontier,
  before: MembershipRow | undefined,
  settings: Pick<Settings, 'windowPosts' | 'windowAgeMs'>,
): JoinCursor {
  const atFrontier = { joinCursor: frontier.seq, cursorSource: 'frontier' } as const;
  if (claimed === undefined || claimed > frontier.seq) return atFrontier;
  // The earlier interval ended with a leave: what came before and after it is owed to nobody.
  if (before?.incarnation === frontier.incarnation && claimed < (before.leaveCursor ?? 0))
    return atFrontier;
  const tooMany = frontier.seq - claimed > settings.windowPosts;
  const tooOld = (frontier.behindAgeMs ?? 0) > settings.windowAgeMs;
  if (tooMany || tooOld) return { ...atFrontier, lost: { from: claimed + 1, to: frontier.seq } };
  return { joinCursor: claimed, cursorSource: 'client' };
}

/**
 * Where an interval ends if it ends at this frontier. One of a recreated channel stream ends where
 * it began to count: the rest of it is gone.
 */
export const leaveCursorOf = (row: MembershipRow, frontier: Frontier): number =>
  frontier.incarnation === row.incarnation
    ? Math.max(frontier.seq, row.leaveCursor ?? row.joinCursor)
    : (row.leaveCursor ?? row.joinCursor);

/**
 * Above the last one and at least the members stream's last sequence. Every write raises that
 * sequence, so a generation is never used again even if the row that knew it is gone.
 */
export const nextGeneration = (previous: number | undefined, storeSeq: number): number =>
  Math.max((previous ?? 0) + 1, storeSeq);
