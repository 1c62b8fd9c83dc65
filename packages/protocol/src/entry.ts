import type { LifecycleKey } from './ids.ts';

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

export function parseEntryId(text: string): EntryRef | undefined {
  const m = /^([0-9a-z]+)\.(\d+)\.([^.]+\.[^.]+\.[^.]+)\.(\d+)$/.exec(text);
  if (m === null) return undefined;
  const [, incarnation, seq, member, generation] = m as unknown as [
    string,
    string,
    string,
    string,
    string,
  ];
  return { incarnation, seq: Number(seq), member, generation: Number(generation) };
}

/**
 * A stream's incarnation from its creation time (RFC 3339 with up to nine decimals): the
 * nanoseconds since the epoch in base 36. A recreated stream has another one, so its sequences
 * are never taken for the old ones.
 */
export function streamIncarnation(created: string): string {
  const m = /^(.*?)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)$/.exec(created);
  if (m === null) throw new TypeError('not an RFC 3339 time');
  const wholeMs = Date.parse(`${m[1]}${m[3]}`);
  if (Number.isNaN(wholeMs)) throw new TypeError('not an RFC 3339 time');
  const nanos = BigInt((m[2] ?? '0').padEnd(9, '0'));
  return (BigInt(wholeMs) * 1_000_000n + nanos).toString(36);
}

/** RFC 3339 with nanoseconds to nanoseconds since the epoch, as a text like in an ack subject. */
export function rfc3339ToNs(time: string): string {
  return BigInt.asUintN(64, parseBase36(streamIncarnation(time))).toString();
}

function parseBase36(text: string): bigint {
  let n = 0n;
  for (const c of text) n = n * 36n + BigInt(Number.parseInt(c, 36));
  return n;
}
