import {
  anyCovers,
  type EntryKind,
  type EntryRef,
  type LifecycleKey,
  type RightsRow,
} from '@plane3/protocol';

/**
 * May this entry be released to its member, now? A pure rule over durable facts: the operator's
 * `explain` runs this very function.
 */

/** Stored and invisible until it may be read again, is disposed of, or retention ends it. */
export type Withholding =
  /** The current rights row does not cover the channel. */
  | 'no-right'
  /** The row covers it, what the credential was issued for does not. */
  | 'over-ceiling'
  /** A current registry knows no such membership. */
  | 'no-membership'
  /** The post lies outside the interval of the entry's own generation. */
  | 'outside-interval';

/** Never owed again, whatever happens: the entry leaves the store, counted under this reason. */
export type Disposal = 'left' | 'retired' | 'own-post';

/** Why nobody can say at this moment. Never releases, never drops, is not charged to the entry. */
export type Doubt =
  | 'rights-not-current'
  | 'rights-row-never-seen'
  | 'membership-not-current'
  /** The join is not activated: the next daemon may still undo it. */
  | 'membership-not-active';

export type Verdict =
  | { readonly kind: 'allow' }
  | { readonly kind: 'refuse'; readonly effect: 'withhold'; readonly reason: Withholding }
  | { readonly kind: 'refuse'; readonly effect: 'dispose'; readonly reason: Disposal }
  | { readonly kind: 'cannot-tell'; readonly why: Doubt };

export interface JudgedEntry {
  readonly entry: EntryRef;
  readonly channel: string;
  readonly kind: EntryKind;
  /** The sender's principal, dot form. */
  readonly from: string;
}

/** Both positions lie in `incarnation` of the channel stream; the post at `joinCursor` is not owed. */
export interface Interval {
  readonly incarnation: string;
  readonly joinCursor: number;
}

/** The state of one generation of one membership. */
export type GenerationState =
  | ({ readonly kind: 'joining' | 'open' } & Interval)
  | ({ readonly kind: 'closed'; readonly leaveCursor: number } & Interval)
  /** Proved: a current registry holds no such generation. */
  | { readonly kind: 'none' }
  | { readonly kind: 'unknown' };

export interface ReleaseFacts {
  readonly rights: {
    /** Whether the view of the rights rows is proved current. */
    readonly current: boolean;
    readonly row:
      | Pick<RightsRow, 'allowSubscribe' | 'issuedAllowSubscribe' | 'retiredAt'>
      | undefined;
  };
  /** Of the entry's own generation. Looked at for durable entries only. */
  readonly membership: GenerationState;
  /** `hard`: nothing of a closed generation; `cursor`: what lies at or below its leave cursor. */
  readonly leaveBoundary: 'hard' | 'cursor';
}

const ALLOW: Verdict = { kind: 'allow' };
const withhold = (reason: Withholding): Verdict => ({ kind: 'refuse', effect: 'withhold', reason });
const dispose = (reason: Disposal): Verdict => ({ kind: 'refuse', effect: 'dispose', reason });
const cannotTell = (why: Doubt): Verdict => ({ kind: 'cannot-tell', why });

/**
 * Facts that can never change back (retired, left) decide also from a view that is not proved
 * current; every other fact needs the proof. Wire contract section 4, rights and members.
 */
export function judgeRelease(entry: JudgedEntry, facts: ReleaseFacts): Verdict {
  const { row, current } = facts.rights;
  if (isOwn(entry.entry.member, entry.from)) return dispose('own-post');
  if (row?.retiredAt !== undefined) return dispose('retired');
  if (entry.kind === 'durable' && isPast(entry, facts)) return dispose('left');
  if (!current) return cannotTell('rights-not-current');
  if (row === undefined) return cannotTell('rights-row-never-seen');
  if (!anyCovers(row.allowSubscribe, entry.channel)) return withhold('no-right');
  if (!anyCovers(row.issuedAllowSubscribe, entry.channel)) return withhold('over-ceiling');
  return entry.kind === 'mention' ? ALLOW : judgeMembership(entry, facts.membership);
}

function judgeMembership({ entry }: JudgedEntry, m: GenerationState): Verdict {
  if (m.kind === 'unknown') return cannotTell('membership-not-current');
  if (m.kind === 'none') return withhold('no-membership');
  if (m.incarnation !== entry.incarnation || entry.seq <= m.joinCursor)
    return withhold('outside-interval');
  return m.kind === 'joining' ? cannotTell('membership-not-active') : ALLOW;
}

/** A generation is never opened again, so what is closed for an entry stays closed. */
function isPast({ entry }: JudgedEntry, { membership: m, leaveBoundary }: ReleaseFacts): boolean {
  if (m.kind !== 'closed') return false;
  if (leaveBoundary === 'hard') return true;
  return m.incarnation === entry.incarnation && entry.seq > m.leaveCursor;
}

const isOwn = (member: LifecycleKey, from: string): boolean =>
  member.startsWith(from) && member.charCodeAt(from.length) === 0x2e;
