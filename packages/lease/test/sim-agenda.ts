export interface Scheduled {
  readonly atMs: number;
  readonly f: () => void;
}

/** What happens when, in order of time and of entry. */
export class Agenda {
  readonly #queue: (Scheduled & { readonly order: number })[] = [];
  #order = 0;

  add(atMs: number, f: () => void): void {
    this.#queue.push({ atMs, f, order: this.#order++ });
  }

  next(): Scheduled | undefined {
    let best = 0;
    for (let i = 1; i < this.#queue.length; i++) {
      const a = this.#queue[i];
      const b = this.#queue[best];
      if (a === undefined || b === undefined) break;
      if (a.atMs < b.atMs || (a.atMs === b.atMs && a.order < b.order)) best = i;
    }
    return this.#queue.splice(best, 1)[0];
  }
}
