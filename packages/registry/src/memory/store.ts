import { done, type Outcome, refused } from '@plane3/protocol';
import type { MembershipRow, StoredRow, StoreRefusal, WriteRefusal } from '../membership.ts';
import type { MembershipStore, StoreSink } from '../ports.ts';
import { decodeRow, encodeRow } from '../row.ts';

interface Cell {
  readonly bytes: Uint8Array;
  readonly revision: number;
}

/** The bucket itself: what several processes, each with a store of its own, have in common. */
export class MemoryMembers {
  readonly #cells = new Map<string, Cell>();
  readonly #followers = new Set<StoreSink>();
  #seq = 0;

  get lastSeq(): number {
    return this.#seq;
  }

  get(key: string): Cell | undefined {
    return this.#cells.get(key);
  }

  keys(): IterableIterator<string> {
    return this.#cells.keys();
  }

  /** Compare-and-set; `bytes` undefined removes. The new revision, or nothing on conflict. */
  set(key: string, bytes: Uint8Array | undefined, expected: number): number | undefined {
    if ((this.#cells.get(key)?.revision ?? 0) !== expected) return undefined;
    const revision = ++this.#seq;
    if (bytes === undefined) this.#cells.delete(key);
    else this.#cells.set(key, { bytes, revision });
    const row = bytes === undefined ? undefined : decodeRow(key, bytes);
    for (const f of this.#followers) queueMicrotask(() => f.changed(key, row, revision));
    return revision;
  }

  /** Everything is lost and the sequence starts anew. */
  recreate(): void {
    this.#cells.clear();
    this.#seq = 0;
    for (const f of this.#followers) queueMicrotask(() => f.recreated());
  }

  follow(sink: StoreSink): () => void {
    this.#followers.add(sink);
    return () => this.#followers.delete(sink);
  }
}

/** One process' access to {@link MemoryMembers}. Always current; nothing is ever unknown. */
export class MemoryMembershipStore implements MembershipStore {
  readonly #members: MemoryMembers;
  #unfollow: () => void = () => {};

  constructor(members: MemoryMembers) {
    this.#members = members;
  }

  async load(sink: StoreSink): Promise<Outcome<readonly StoredRow[], StoreRefusal>> {
    this.#unfollow = this.#members.follow(sink);
    const rows: StoredRow[] = [];
    for (const key of this.#members.keys()) {
      const o = this.#read(key);
      if (o.kind === 'done' && o.value !== undefined) rows.push(o.value);
    }
    return done(rows);
  }

  async read(key: string): Promise<Outcome<StoredRow | undefined, StoreRefusal>> {
    return this.#read(key);
  }

  async write(
    key: string,
    row: MembershipRow,
    expected: number,
  ): Promise<Outcome<number, WriteRefusal>> {
    return this.#set(key, encodeRow(row), expected);
  }

  async remove(key: string, expected: number): Promise<Outcome<number, WriteRefusal>> {
    return this.#set(key, undefined, expected);
  }

  async lastSeq(): Promise<Outcome<number, StoreRefusal>> {
    return done(this.#members.lastSeq);
  }

  isCurrent(): boolean {
    return true;
  }

  currentAsOfMs(): number {
    return Number.POSITIVE_INFINITY;
  }

  async close(): Promise<void> {
    this.#unfollow();
  }

  #read(key: string): Outcome<StoredRow | undefined, StoreRefusal> {
    const cell = this.#members.get(key);
    if (cell === undefined) return done(undefined);
    const row = decodeRow(key, cell.bytes);
    if (row === undefined) return refused('malformed', key);
    return done({ row, revision: cell.revision });
  }

  #set(
    key: string,
    bytes: Uint8Array | undefined,
    expected: number,
  ): Outcome<number, WriteRefusal> {
    const revision = this.#members.set(key, bytes, expected);
    return revision === undefined ? refused('conflict', key) : done(revision);
  }
}
