import {
  entryId,
  FRAME_VERSION,
  HEADER,
  type LifecycleKey,
  MENTION_GENERATION,
} from '@plane3/protocol';
import type { FoundCopy, Owed, SoundPost } from './model.ts';

export type HeaderLines = readonly (readonly [string, string])[];

/** What all copies of one post have in common, built once. */
export interface PostHeaders {
  readonly incarnation: string;
  readonly seq: number;
  readonly lines: HeaderLines;
}

export function postHeaders(
  incarnation: string,
  post: SoundPost,
  signature: string | undefined,
): PostHeaders {
  const lines: (readonly [string, string])[] = [
    [HEADER.frame, String(FRAME_VERSION)],
    [HEADER.seq, String(post.seq)],
    [HEADER.incarnation, incarnation],
    [HEADER.channel, post.channel],
    [HEADER.from, post.from],
  ];
  if (signature !== undefined) lines.push([HEADER.signature, signature]);
  return { incarnation, seq: post.seq, lines };
}

export const entryOf = (incarnation: string, seq: number, owed: Owed): string =>
  entryId({ incarnation, seq, member: owed.member, generation: owed.generation });

/** The id that the broker's duplicate window sees: another one after each false duplicate. */
export const publishId = (entry: string, attempt: number): string =>
  attempt === 0 ? entry : `${entry}~${attempt}`;

/**
 * Every header of a stored copy but the fence's. A whitelist: nothing of the post's own headers
 * is taken over, since a sender's `Nats-*` header would refuse or redirect the copy.
 */
export const copyHeaders = (
  shared: PostHeaders,
  owed: Owed,
  entry: string,
  attempt: number,
): HeaderLines => [
  ...shared.lines,
  [HEADER.msgId, publishId(entry, attempt)],
  [HEADER.entry, entry],
  [HEADER.kind, owed.kind],
  [HEADER.generation, String(owed.generation)],
];

/**
 * Whether a copy found in the store is the owed one. A member's copy and a mention copy of one
 * post share the slot, so either stands for both; a copy of another generation belongs to a
 * closed membership and stands for nothing.
 */
export const standsFor = (found: FoundCopy, owed: Owed): boolean =>
  found.generation === owed.generation ||
  found.generation === MENTION_GENERATION ||
  owed.generation === MENTION_GENERATION;

/** Whether `member` is a lifecycle of the principal `from` (dot form). */
export const isOwn = (member: LifecycleKey, from: string): boolean =>
  member.startsWith(from) && member.charCodeAt(from.length) === 0x2e;
