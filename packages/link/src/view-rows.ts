import type { Row } from './view-feed.ts';

export interface ViewRow<T> {
  readonly value: T;
  readonly revision: number;
}

type ChangeListener<T> = (key: string, value: T | undefined, revision: number) => void;

/** Keys and values, and the keys of which only a marker is left. */
class Contents<T> {
  readonly rows = new Map<string, ViewRow<T>>();
  /** Deleted, forged or unreadable: known to the stream, without a value for us. */
  readonly blanks = new Map<string, number>();
  revision = 0;
}

/** One load: filled beside the contents in use until it is complete. */
export interface Filling {
  /** True after {@link complete}: from then on rows go straight into the contents in use. */
  readonly live: boolean;
  apply(row: Row): void;
  /** Takes the place of the contents in use and tells every difference. */
  complete(lastSeq: number): void;
}

/** The contents of a view. No I/O, no clock. */
export class ViewRows<T> {
  readonly #parse: (bytes: Uint8Array, key: string) => T | undefined;
  readonly #listeners = new Set<ChangeListener<T>>();
  #current = new Contents<T>();
  #highest = 0;
  foreign = 0;

  readonly #call: <A>(fn: (x: A) => void, x: A) => void;

  /** `call` calls listeners and contains what they throw. */
  constructor(
    parse: (bytes: Uint8Array, key: string) => T | undefined,
    call: <A>(fn: (x: A) => void, x: A) => void,
  ) {
    this.#parse = parse;
    this.#call = call;
  }

  get(key: string): ViewRow<T> | undefined {
    return this.#current.rows.get(key);
  }
  entries(): IterableIterator<[string, ViewRow<T>]> {
    return this.#current.rows.entries();
  }
  get size(): number {
    return this.#current.rows.size;
  }
  get revision(): number {
    return this.#current.revision;
  }
  /** Keys that the stream has something for. */
  get known(): number {
    return this.#current.rows.size + this.#current.blanks.size;
  }
  /** Highest sequence that was seen or proved since the last load. */
  get highest(): number {
    return this.#highest;
  }

  onChange(listener: ChangeListener<T>): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Nothing up to `seq` is missing. */
  reach(seq: number): void {
    this.#current.revision = Math.max(this.#current.revision, seq);
    this.#highest = Math.max(this.#highest, seq);
  }

  refill(): Filling {
    const next = new Contents<T>();
    let live = false;
    return {
      get live() {
        return live;
      },
      apply: (row) => {
        if (live && next !== this.#current) return; // an older load
        this.#apply(next, row);
        if (!live) return;
        this.#highest = Math.max(this.#highest, row.revision);
        this.#tell(row.key, next.rows.get(row.key)?.value, row.revision);
      },
      complete: (lastSeq) => {
        live = true;
        next.revision = Math.max(next.revision, lastSeq);
        this.#highest = next.revision;
        this.#replaceBy(next);
      },
    };
  }

  #apply(contents: Contents<T>, row: Row): void {
    const usable = row.value !== undefined && !row.forged;
    const value = usable ? this.#read(row.value as Uint8Array, row.key) : undefined;
    if (value === undefined) {
      if (row.value !== undefined) this.foreign++;
      contents.rows.delete(row.key);
      contents.blanks.set(row.key, row.revision);
    } else {
      contents.blanks.delete(row.key);
      contents.rows.set(row.key, { value, revision: row.revision });
    }
    contents.revision = Math.max(contents.revision, row.revision);
  }

  #read(bytes: Uint8Array, key: string): T | undefined {
    try {
      return this.#parse(bytes, key);
    } catch {
      return undefined; // counted as foreign, like any other row that is none
    }
  }

  #replaceBy(next: Contents<T>): void {
    const old = this.#current;
    this.#current = next;
    for (const [key] of old.rows)
      if (!next.rows.has(key)) this.#tell(key, undefined, next.blanks.get(key) ?? next.revision);
    for (const [key, row] of next.rows)
      if (old.rows.get(key)?.revision !== row.revision) this.#tell(key, row.value, row.revision);
  }

  #tell(key: string, value: T | undefined, revision: number): void {
    for (const listener of [...this.#listeners])
      this.#call(() => listener(key, value, revision), undefined);
  }
}
