import type { MembershipRow, MembershipState } from './membership.ts';
import type { Goal } from './model.ts';

/** `astray`: owed posts, but counted in an earlier incarnation of the channel stream. */
export type Standing = MembershipState | 'absent' | 'astray';

/**
 * - `rest`: the goal is reached.
 * - `open`: a new generation, as joining.
 * - `catch-up`: copy (join cursor, fence], then activate.
 * - `rebase`: joining again from the start of the present channel stream.
 * - `mark-leaving`: set the leave cursor at the frontier.
 * - `close`: take back and dispose of what is pending, then close.
 * - `remove`: the row goes.
 */
export type Action = 'rest' | 'open' | 'catch-up' | 'rebase' | 'mark-leaving' | 'close' | 'remove';

/**
 * What brings a row one step nearer to a goal. `settle` finishes what another process left half
 * done, a join as well as a leave. Every chain ends: absent or closed → joining → active, joining
 * or active → leaving → closed → absent.
 */
const NEXT: Readonly<Record<Goal, Readonly<Record<Standing, Action>>>> = {
  join: {
    absent: 'open',
    joining: 'catch-up',
    active: 'rest',
    astray: 'rebase',
    leaving: 'close',
    closed: 'open',
  },
  leave: {
    absent: 'rest',
    joining: 'mark-leaving',
    active: 'mark-leaving',
    astray: 'mark-leaving',
    leaving: 'close',
    closed: 'rest',
  },
  remove: {
    absent: 'rest',
    joining: 'mark-leaving',
    active: 'mark-leaving',
    astray: 'mark-leaving',
    leaving: 'close',
    closed: 'remove',
  },
  settle: {
    absent: 'rest',
    joining: 'catch-up',
    active: 'rest',
    astray: 'rebase',
    leaving: 'close',
    closed: 'rest',
  },
};

export function standingOf(row: MembershipRow | undefined, incarnation: string): Standing {
  if (row === undefined) return 'absent';
  const owed = row.state === 'joining' || row.state === 'active';
  return owed && row.incarnation !== incarnation ? 'astray' : row.state;
}

export const nextAction = (goal: Goal, standing: Standing): Action => NEXT[goal][standing];

/** Half done: somebody has to go on with it, whether or not anyone still asks. */
export const isUnsettled = (standing: Standing): boolean =>
  nextAction('settle', standing) !== 'rest';
