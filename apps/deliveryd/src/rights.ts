import { BucketView, type Link } from '@plane3/link';
import {
  anyCovers,
  type Lifecycle,
  type LifecycleKey,
  lifecycleKey,
  parseLifecycle,
  parseRecord,
  principalId,
  type RightsRow,
  rightsRowSchema,
  type SpaceNames,
} from '@plane3/protocol';

/** Whom a name in a post's mentions means (wire contract section 4). */
export type MentionTarget = Lifecycle | 'none' | 'ambiguous';

interface Named {
  readonly lifecycle: Lifecycle;
  readonly row: RightsRow;
}

/** The rights rows of the space, in memory, with an index by name. */
export class RightsDirectory {
  readonly view: BucketView<RightsRow>;
  readonly #byName = new Map<string, Map<LifecycleKey, Named>>();
  readonly #nameOf = new Map<LifecycleKey, string>();

  constructor(link: Link, names: SpaceNames, freshnessMs: number) {
    this.view = new BucketView(link, names.buckets.acl, {
      parse: (bytes, key) =>
        parseLifecycle(key) === undefined ? undefined : parseRecord(rightsRowSchema, bytes),
      freshnessMs,
    });
    this.view.onChange((key, row) => this.#index(key, row));
  }

  get isCurrent(): boolean {
    return this.view.state === 'current';
  }

  /** The row as it stands here; `undefined` is "never seen", which is no answer about rights. */
  rowOf(member: LifecycleKey): RightsRow | undefined {
    return this.view.get(member)?.value;
  }

  revisionOf(member: LifecycleKey): number | undefined {
    return this.view.get(member)?.revision;
  }

  isLive(member: LifecycleKey): boolean {
    const row = this.rowOf(member);
    return row !== undefined && row.retiredAt === undefined;
  }

  /** Covered by the row and by the ceiling that its credential was issued for. */
  mayRead(member: LifecycleKey, channel: string): boolean {
    const row = this.rowOf(member);
    return (
      row !== undefined &&
      row.retiredAt === undefined &&
      anyCovers(row.allowSubscribe, channel) &&
      anyCovers(row.issuedAllowSubscribe, channel)
    );
  }

  /**
   * Several lifecycles of one principal: the youngest mint. Names of different principals are
   * ambiguous: nobody is meant.
   */
  resolveMention(name: string): MentionTarget {
    let best: Named | undefined;
    for (const n of this.#byName.get(name)?.values() ?? []) {
      if (n.row.retiredAt !== undefined) continue;
      if (best === undefined) best = n;
      else if (principalId(best.lifecycle) !== principalId(n.lifecycle)) return 'ambiguous';
      else if (mintedAt(n.row) > mintedAt(best.row)) best = n;
    }
    return best?.lifecycle ?? 'none';
  }

  #index(key: LifecycleKey, row: RightsRow | undefined): void {
    const before = this.#nameOf.get(key);
    if (before !== undefined) {
      const named = this.#byName.get(before);
      named?.delete(key);
      if (named?.size === 0) this.#byName.delete(before);
      this.#nameOf.delete(key);
    }
    const lifecycle = row === undefined ? undefined : parseLifecycle(key);
    if (row === undefined || lifecycle === undefined) return;
    const name = row.name.toLowerCase();
    const named = this.#byName.get(name) ?? new Map<LifecycleKey, Named>();
    named.set(lifecycleKey(lifecycle), { lifecycle, row });
    this.#byName.set(name, named);
    this.#nameOf.set(key, name);
  }
}

/** When the lifecycle was minted; rows that do not say it count from their last change. */
const mintedAt = (row: RightsRow): number => {
  const at = row['mintedAt'];
  return typeof at === 'number' ? at : row.updatedAt;
};
