import type { LifecycleKey } from '@plane3/protocol';
import type { MembershipRow, StoredRow } from './membership.ts';
import { membershipKey } from './row.ts';

/** States in which posts behind the join cursor are owed. */
export const isOwedPosts = (row: MembershipRow): boolean =>
  row.state === 'joining' || row.state === 'active';

interface ChannelRows {
  /** Members that are owed posts. */
  readonly owed: Map<LifecycleKey, MembershipRow>;
  /** Members that are leaving or have left. */
  readonly rest: Map<LifecycleKey, MembershipRow>;
}

const NONE: ReadonlyMap<LifecycleKey, MembershipRow> = new Map();

/**
 * All rows in memory. A change costs O(1); a post costs O(its channel's members), whatever the
 * number of memberships and of former members.
 */
export class RowIndex {
  readonly #rows = new Map<string, StoredRow>();
  readonly #channels = new Map<string, ChannelRows>();
  readonly #members = new Map<LifecycleKey, Map<string, StoredRow>>();

  get size(): number {
    return this.#rows.size;
  }

  get(key: string): StoredRow | undefined {
    return this.#rows.get(key);
  }

  values(): IterableIterator<StoredRow> {
    return this.#rows.values();
  }

  set(stored: StoredRow): void {
    const { row } = stored;
    const { channel, member } = row;
    this.#rows.set(membershipKey(channel, member), stored);
    let inChannel = this.#channels.get(channel);
    if (inChannel === undefined) {
      inChannel = { owed: new Map(), rest: new Map() };
      this.#channels.set(channel, inChannel);
    }
    const [into, outOf] = isOwedPosts(row)
      ? [inChannel.owed, inChannel.rest]
      : [inChannel.rest, inChannel.owed];
    outOf.delete(member);
    into.set(member, row);
    let ofMember = this.#members.get(member);
    if (ofMember === undefined) {
      ofMember = new Map();
      this.#members.set(member, ofMember);
    }
    ofMember.set(channel, stored);
  }

  delete(key: string): void {
    const stored = this.#rows.get(key);
    if (stored === undefined) return;
    this.#rows.delete(key);
    const { channel, member } = stored.row;
    const inChannel = this.#channels.get(channel);
    inChannel?.owed.delete(member);
    inChannel?.rest.delete(member);
    if (inChannel?.owed.size === 0 && inChannel.rest.size === 0) this.#channels.delete(channel);
    const ofMember = this.#members.get(member);
    ofMember?.delete(channel);
    if (ofMember?.size === 0) this.#members.delete(member);
  }

  clear(): void {
    this.#rows.clear();
    this.#channels.clear();
    this.#members.clear();
  }

  /** Rows of the channel that are owed posts, without regard to cursors. */
  owedIn(channel: string): ReadonlyMap<LifecycleKey, MembershipRow> {
    return this.#channels.get(channel)?.owed ?? NONE;
  }

  *ofChannel(channel: string): Generator<MembershipRow, void> {
    const rows = this.#channels.get(channel);
    if (rows === undefined) return;
    yield* rows.owed.values();
    yield* rows.rest.values();
  }

  *ofMember(member: LifecycleKey): Generator<StoredRow, void> {
    yield* this.#members.get(member)?.values() ?? [];
  }
}
