import { done, type Outcome, refused, unknown } from '@plane3/protocol';
import type { RowRefusal, RowSeen, StoredRow } from '../model.ts';
import type { BucketSettings, Clock, LeaseRowPort, ProbeSeen, RowNotice } from '../ports.ts';

/** What happens to the next calls of one client: refused, swallowed before or after the effect. */
export type MemoryFault = 'lose-request' | 'lose-answer' | RowRefusal;

interface Stored {
  /** `undefined`: a removal marker, or a probe key. */
  readonly row: StoredRow | undefined;
  readonly marker: boolean;
  readonly revision: number;
  readonly storedMs: number;
}

/** One lease bucket in memory, for any number of clients. */
export class MemoryLeaseBucket {
  readonly #clock: Clock;
  readonly #settings: BucketSettings;
  readonly #keys = new Map<'row' | 'probe', Stored>();
  readonly #watchers = new Set<(n: RowNotice) => void>();
  #revision = 0;
  /** False: rows stay for ever whatever the settings say. */
  expires = true;

  constructor(clock: Clock, settings: Partial<BucketSettings> = {}) {
    this.#clock = clock;
    this.#settings = { bucket: 'lease', ttlMs: 2_000, markerTtlMs: 0, ...settings };
  }

  /** The row that is there now, for a test's eye. */
  get row(): StoredRow | undefined {
    return this.#get('row')?.row;
  }

  /** Writes whatever the sequence is: somebody with a tool. */
  force(row: StoredRow | undefined): number {
    return this.#put('row', row, row === undefined);
  }

  /** One client's port. `fault` is asked at each call. */
  open(fault: () => MemoryFault | undefined = () => undefined): LeaseRowPort {
    const call = async <T>(f: () => Outcome<T, RowRefusal>): Promise<Outcome<T, RowRefusal>> => {
      const how = fault();
      if (how === 'lose-request') return unknown('request lost');
      if (how !== undefined && how !== 'lose-answer') return refused(how, 'fault');
      const answer = f();
      return how === 'lose-answer' ? unknown('answer lost') : answer;
    };
    return {
      settings: () => call(() => done(this.#settings)),
      read: () => call(() => done(this.#seen())),
      write: (row, expected) => call(() => this.#write(row, expected)),
      remove: (revision) => call(() => this.#remove(revision)),
      watch: (listener) =>
        call(() => {
          this.#watchers.add(listener);
          return done(() => {
            this.#watchers.delete(listener);
          });
        }),
      probe: {
        write: () => call(() => done(this.#put('probe', undefined, false))),
        read: () => call(() => done(this.#probe())),
      },
    };
  }

  #get(key: 'row' | 'probe'): Stored | undefined {
    const s = this.#keys.get(key);
    if (s === undefined || !this.expires) return s;
    if (this.#clock.nowMs() - s.storedMs < this.#settings.ttlMs) return s;
    this.#keys.delete(key);
    return undefined;
  }

  #seen(): RowSeen | undefined {
    const s = this.#get('row');
    if (s === undefined || s.marker) return undefined;
    return { row: s.row, revision: s.revision, ageMs: this.#clock.nowMs() - s.storedMs };
  }

  #probe(): ProbeSeen | undefined {
    const s = this.#get('probe');
    return s === undefined ? undefined : { revision: s.revision, storedMs: s.storedMs };
  }

  #write(row: StoredRow, expected: number): Outcome<number, RowRefusal> {
    const s = this.#get('row');
    const there = s === undefined || (s.marker && expected === 0) ? 0 : s.revision;
    if (there !== expected) return refused('conflict', `revision ${there}, expected ${expected}`);
    return done(this.#put('row', row, false));
  }

  #remove(revision: number): Outcome<number, RowRefusal> {
    const there = this.#get('row')?.revision ?? 0;
    if (there !== revision) return refused('conflict', `revision ${there}, expected ${revision}`);
    return done(this.#put('row', undefined, true));
  }

  #put(key: 'row' | 'probe', row: StoredRow | undefined, marker: boolean): number {
    const revision = ++this.#revision;
    this.#keys.set(key, { row, marker, revision, storedMs: this.#clock.nowMs() });
    if (key === 'row')
      for (const f of this.#watchers)
        queueMicrotask(() => f({ revision, removed: marker, incarnation: row?.incarnation }));
    return revision;
  }
}
