import type { LifecycleKey } from '@plane3/protocol';
import type { Decision, MembershipRow } from '@plane3/registry';

/** What a port does with a question: the hard cases by name. */
export type Mode = 'ok' | 'lost' | 'landed-unknown' | 'late' | 'refused';

export interface Copy {
  readonly member: LifecycleKey;
  readonly channel: string;
  readonly seq: number;
  readonly generation: number;
}

export type AnyAnswer = Extract<Decision, { kind: 'answer' }>['answer'];
export type Effect =
  | Exclude<Extract<Decision, { token: number }>, { kind: 'read-decided' }>
  | Extract<Decision, { kind: 'bound' }>;

export interface History {
  readonly joinCursor: number;
  leaveCursor: number | undefined;
  state: MembershipRow['state'];
  /** The highest post that was ever copied under it. */
  copied: number;
}

export const INCARNATION = 'chat1';
export const copyId = (c: Copy): string => `${c.channel}/${c.member}#${c.seq}@${c.generation}`;
