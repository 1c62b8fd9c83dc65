import type { Clock, Timers } from '../ports.ts';

interface Due {
  readonly atMs: number;
  readonly f: () => void;
}

/** Clock and timers that move only when told to. */
export class ManualTime implements Clock, Timers {
  #nowMs = 0;
  readonly #due = new Set<Due>();

  nowMs(): number {
    return this.#nowMs;
  }

  wallMs(): number {
    return 1_700_000_000_000 + this.#nowMs;
  }

  after(ms: number, f: () => void): () => void {
    const due: Due = { atMs: this.#nowMs + ms, f };
    this.#due.add(due);
    return () => this.#due.delete(due);
  }

  /** Passes time, running what falls due in order; answers and continuations run in between. */
  async pass(ms: number): Promise<void> {
    const untilMs = this.#nowMs + ms;
    await settle();
    for (;;) {
      let next: Due | undefined;
      for (const d of this.#due)
        if (d.atMs <= untilMs && (next === undefined || d.atMs < next.atMs)) next = d;
      if (next === undefined) break;
      this.#due.delete(next);
      this.#nowMs = Math.max(this.#nowMs, next.atMs);
      next.f();
      await settle();
    }
    this.#nowMs = untilMs;
    await settle();
  }

  /** Time that passes while nobody runs: a stopped process, a blocked loop. */
  jump(ms: number): void {
    this.#nowMs += ms;
  }
}

/** Continuations of answered calls in a row; the adapters here need no more. */
const CONTINUATIONS_MAX = 64;

async function settle(): Promise<void> {
  for (let i = 0; i < CONTINUATIONS_MAX; i++) await Promise.resolve();
}
