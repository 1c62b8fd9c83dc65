import type {
  FenceMark,
  FenceRefusal,
  FenceSeen,
  RowRefusal,
  RowSeen,
  StoredRow,
} from '@plane3/lease';
import { done, type Outcome, refused } from '@plane3/protocol';

export interface SimBrokerHooks {
  nowMs(): number;
  /** How much later than due this row ends. */
  lateMs(): number;
  /** A row is about to be replaced by another incarnation's. */
  taken(owner: string, by: string): void;
  removed(owner: string | undefined, by: string): void;
  changed(row: StoredRow | undefined, revision: number): void;
}

/** The broker's side: one row that ages, one fence, and what was stored behind it. */
export class SimBroker {
  readonly stored: { readonly incarnation: string; readonly term: number }[] = [];
  fence: FenceSeen | undefined;
  readonly #hooks: SimBrokerHooks;
  readonly #ttlMs: number;
  #revision = 0;
  #streamSeq = 0;
  #row: { row: StoredRow | undefined; revision: number; endsAtMs: number } | undefined;

  constructor(hooks: SimBrokerHooks, ttlMs: number) {
    this.#hooks = hooks;
    this.#ttlMs = ttlMs;
  }

  /** The clock leaps: what is there ends at once. False: there was nothing. */
  expire(): boolean {
    if (this.#row === undefined) return false;
    this.#row = { ...this.#row, endsAtMs: this.#hooks.nowMs() };
    return true;
  }

  read(): RowSeen | undefined {
    const s = this.#live();
    return s?.row === undefined ? undefined : { row: s.row, revision: s.revision, ageMs: 0 };
  }

  write(row: StoredRow, expected: number): Outcome<number, RowRefusal> {
    const s = this.#live();
    const there = s?.row === undefined ? 0 : s.revision;
    if (there !== expected) return refused('conflict');
    const owner = s?.row?.incarnation;
    if (owner !== undefined && owner !== row.incarnation) this.#hooks.taken(owner, row.incarnation);
    return done(this.#put(row));
  }

  remove(by: string, revision: number): Outcome<number, RowRefusal> {
    const s = this.#live();
    if (s === undefined || s.revision !== revision) return refused('conflict');
    this.#hooks.removed(s.row?.incarnation, by);
    return done(this.#put(undefined));
  }

  writeFence(mark: FenceMark, expectedSeq: number): Outcome<number, FenceRefusal> {
    if ((this.fence?.seq ?? 0) !== expectedSeq) return refused('conflict');
    this.fence = { seq: ++this.#streamSeq, mark };
    return done(this.#streamSeq);
  }

  /** A holder's write; false: fenced off. */
  store(fenceSeq: number, what: { incarnation: string; term: number }): boolean {
    if (this.fence?.seq !== fenceSeq) return false;
    this.#streamSeq++;
    this.stored.push(what);
    return true;
  }

  #live(): { row: StoredRow | undefined; revision: number } | undefined {
    if (this.#row !== undefined && this.#row.endsAtMs <= this.#hooks.nowMs()) this.#row = undefined;
    return this.#row;
  }

  #put(row: StoredRow | undefined): number {
    const revision = ++this.#revision;
    const endsAtMs = this.#hooks.nowMs() + this.#ttlMs + this.#hooks.lateMs();
    this.#row = { row, revision, endsAtMs };
    this.#hooks.changed(row, revision);
    return revision;
  }
}
