import { type LifecycleKey, parseLifecycle } from './ids.ts';

/** `durable`: owed through a membership. `mention`: the member was named on a live channel. */
export type EntryKind = 'durable' | 'mention';

/** A mention copy belongs to no membership. */
export const MENTION_GENERATION = 0;

/**
 * One copy of one post for one member, as the private store keeps it. The store id comes from
 * what the broker vouches for, never from the sender's message id.
 */
export interface EntryRef {
  readonly member: LifecycleKey;
  /** Incarnation of the channel stream, see {@link streamIncarnation}. */
  readonly incarnation: string;
  /** Sequence of the post in the channel stream. */
  readonly seq: number;
  /** Generation of the membership that is owed the post; {@link MENTION_GENERATION} for a mention. */
  readonly generation: number;
}

/** A post has one slot per member: a member's copy and a mention copy never both exist. */
export const slotOf = (e: Pick<EntryRef, 'member' | 'incarnation' | 'seq'>): string =>
  `${e.incarnation}.${e.seq}.${e.member}`;

/** Store id `<incarnation>.<seq>.<member>.<generation>`; also what operators call an entry by. */
export const entryId = (e: EntryRef): string => `${slotOf(e)}.${e.generation}`;

const ENTRY = /^([0-9a-z]+)\.([1-9]\d{0,15})\.([^.]+\.[^.]+\.[^.]+)\.(0|[1-9]\d{0,15})$/;

/** `undefined` for every text that {@link entryId} would not have written just so. */
export function parseEntryId(text: string): EntryRef | undefined {
  const [, incarnation, seqText, member, generationText] = ENTRY.exec(text) ?? [];
  if (incarnation === undefined || member === undefined) return undefined;
  const seq = Number(seqText);
  const generation = Number(generationText);
  if (!Number.isSafeInteger(seq) || !Number.isSafeInteger(generation)) return undefined;
  if (parseLifecycle(member) === undefined) return undefined;
  return { incarnation, seq, member, generation };
}

/**
 * A stream's incarnation from its creation time (RFC 3339 with up to nine decimals): the
 * nanoseconds since the epoch in base 36. A recreated stream has another one, so its sequences
 * are never taken for the old ones. Throws TypeError for what is no such time since 1970.
 */
export const streamIncarnation = (created: string): string => nanoseconds(created).toString(36);

/** RFC 3339 to nanoseconds since the epoch, as a decimal text like in an ack subject. */
export const rfc3339ToNs = (time: string): string => nanoseconds(time).toString();

const RFC_3339 = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)$/;

/** A day that its month lacks and a leap second are refused, not moved to another instant. */
function nanoseconds(time: string): bigint {
  const [, local, decimals, offset] = RFC_3339.exec(time) ?? [];
  const asUtcMs = Date.parse(`${local}Z`);
  const wholeMs = Date.parse(`${local}${offset}`);
  const isDate =
    local !== undefined &&
    !Number.isNaN(asUtcMs) &&
    new Date(asUtcMs).toISOString().startsWith(local);
  if (!isDate || Number.isNaN(wholeMs) || wholeMs < 0)
    throw new TypeError('not an RFC 3339 time since 1970');
  return BigInt(wholeMs) * 1_000_000n + BigInt((decimals ?? '').padEnd(9, '0'));
}
