import type { FanOutCursor, Recreated, StartOptions } from './model.ts';

export type Beginning =
  | {
      readonly kind: 'from';
      readonly seq: number;
      /** The old cursor was of another stream and is given up, as the options allow. */
      readonly recreated: Recreated | undefined;
      /** Posts that are gone before they were decided. */
      readonly evicted: { readonly from: number; readonly to: number } | undefined;
    }
  | { readonly kind: 'refused'; readonly recreated: Recreated };

/**
 * Where to read on. The stored cursor decides, not the consumer's own floor, and only in the very
 * stream that it counts in: another incarnation, or a stream that ends before the cursor, has
 * other posts under the same sequences.
 */
export function beginning(
  cursor: FanOutCursor | undefined,
  source: {
    readonly incarnation: string;
    readonly firstSeq: number;
    readonly lastSeq: number;
  },
  options: StartOptions,
): Beginning {
  const evictedFrom = (seq: number) =>
    source.firstSeq > seq ? { from: seq, to: source.firstSeq - 1 } : undefined;
  if (cursor === undefined) {
    const seq = Math.max(1, options.fromSeqIfNoCursor);
    return { kind: 'from', seq, recreated: undefined, evicted: evictedFrom(seq) };
  }
  const why =
    cursor.incarnation !== source.incarnation
      ? 'incarnation'
      : source.lastSeq < cursor.seq
        ? 'behind'
        : undefined;
  if (why === undefined) {
    const seq = cursor.seq + 1;
    return { kind: 'from', seq, recreated: undefined, evicted: evictedFrom(seq) };
  }
  const recreated: Recreated = {
    why,
    cursor: { incarnation: cursor.incarnation, seq: cursor.seq },
    found: { incarnation: source.incarnation, lastSeq: source.lastSeq },
  };
  // A stream that lost its tail keeps its incarnation: its new posts would take the ids of the
  // lost ones. Beginning anew would merge them, so this is refused whatever the options say.
  if (options.onRecreated === 'refuse' || why === 'behind') return { kind: 'refused', recreated };
  return { kind: 'from', seq: Math.max(1, source.firstSeq), recreated, evicted: undefined };
}
