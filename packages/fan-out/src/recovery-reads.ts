import { type Outcome, slotOf } from '@plane3/protocol';
import type { Event, FoundCopy, Reason, Trouble } from './model.ts';
import type { CopyStore, DeadPosts, PostSource } from './ports.ts';

const failed = (what: string, outcome: Exclude<Outcome<unknown>, { kind: 'done' }>): Event => {
  const trouble: Trouble =
    outcome.kind === 'unknown'
      ? 'unreachable'
      : what === 'source'
        ? outcome.reason === 'missing'
          ? 'source-missing'
          : 'source-refused'
        : 'store-refused';
  const detail = outcome.kind === 'unknown' ? outcome.cause : `${outcome.reason} ${outcome.detail}`;
  const reason: Reason = { trouble, detail: `${what}: ${detail}` };
  return { kind: 'failed', reason };
};

/**
 * Everything that has to be known before a post is taken: the cursor, what the store and the dead
 * posts hold above it, and which stream the source is.
 */
export async function readForRecovery(
  store: CopyStore,
  dead: DeadPosts,
  source: PostSource,
): Promise<Event> {
  const state = await source.state();
  if (state.kind !== 'done') return failed('source', state);
  const { incarnation } = state.value;
  const cursor = await store.readCursor();
  if (cursor.kind !== 'done') return failed('cursor', cursor);

  const slots = new Map<string, FoundCopy[]>();
  const above = cursor.value?.incarnation === incarnation ? cursor.value.seq : 0;
  let foundThrough = 0;
  const scanned = await store.scan({ storeFloor: cursor.value?.storeFloor ?? 0 }, (copy) => {
    if (copy.incarnation !== incarnation || copy.seq <= above) return;
    const slot = slotOf(copy);
    const others = slots.get(slot);
    if (others === undefined) slots.set(slot, [copy]);
    else others.push(copy);
    foundThrough = Math.max(foundThrough, copy.seq);
  });
  if (scanned.kind !== 'done') return failed('store', scanned);

  const graves = await dead.buriedAbove(cursor.value?.deadFloor ?? 0, incarnation);
  if (graves.kind !== 'done') return failed('dead posts', graves);
  const buried = new Set<number>();
  for (const seq of graves.value.seqs) {
    if (seq > above) buried.add(seq);
    foundThrough = Math.max(foundThrough, seq);
  }
  return {
    kind: 'recovered',
    cursor: cursor.value,
    source: state.value,
    slots,
    storeSeq: scanned.value.storeSeq,
    buried,
    deadSeq: graves.value.deadSeq,
    foundThrough,
  };
}
