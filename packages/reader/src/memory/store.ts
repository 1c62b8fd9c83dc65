import { done, type LifecycleKey, type Outcome, unknown } from '@plane3/protocol';
import type { StoredEntry } from '../model.ts';
import type { EntryStore, StorePage, StoreRefusal } from '../ports.ts';

/** A member store in memory; calls of `fault` decide which answers get lost. */
export class MemoryEntryStore implements EntryStore {
  readonly entries = new Map<number, StoredEntry>();
  #next = 1;
  /** `before`: nothing happened and nobody knows; `after`: it happened and nobody knows. */
  fault: (call: 'read' | 'remove') => 'before' | 'after' | undefined = () => undefined;
  reads = 0;

  /** As fan-out does; answers the entry as it is stored. */
  put(entry: Omit<StoredEntry, 'storeSeq'>): StoredEntry {
    const stored: StoredEntry = { ...entry, storeSeq: this.#next++ };
    this.entries.set(stored.storeSeq, stored);
    return stored;
  }

  of(member: LifecycleKey): StoredEntry[] {
    return [...this.entries.values()].filter((e) => e.entry.member === member);
  }

  async read(
    member: LifecycleKey,
    fromSeq: number,
    max: { readonly entries: number; readonly bytes: number },
  ): Promise<Outcome<StorePage, StoreRefusal>> {
    this.reads++;
    await Promise.resolve();
    if (this.fault('read') !== undefined) return unknown('lost');
    const all = this.of(member).filter((e) => e.storeSeq >= fromSeq);
    const entries: StoredEntry[] = [];
    let bytes = 0;
    for (const e of all) {
      bytes += e.body.length;
      if (entries.length >= max.entries || (entries.length > 0 && bytes > max.bytes)) break;
      entries.push(e);
    }
    const last = entries.at(-1);
    const nextSeq = last === undefined ? fromSeq : last.storeSeq + 1;
    return done({ entries, nextSeq, complete: entries.length === all.length, foreign: 0 });
  }

  async remove(storeSeq: number): Promise<Outcome<boolean, StoreRefusal>> {
    await Promise.resolve();
    const fault = this.fault('remove');
    if (fault === 'before') return unknown('lost');
    const was = this.entries.delete(storeSeq);
    return fault === 'after' ? unknown('lost') : done(was);
  }

  async members(): Promise<Outcome<ReadonlyMap<LifecycleKey, number>, StoreRefusal>> {
    await Promise.resolve();
    const counts = new Map<LifecycleKey, number>();
    for (const e of this.entries.values())
      counts.set(e.entry.member, (counts.get(e.entry.member) ?? 0) + 1);
    return done(counts);
  }
}
