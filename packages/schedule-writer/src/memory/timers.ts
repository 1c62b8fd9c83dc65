import type { Clock, Timers } from '../ports.ts';

interface Waiting {
  readonly atMs: number;
  readonly f: () => void;
}

/** A clock that stands until it is moved, and the timers on it. */
export class MemoryTimers implements Clock, Timers {
  #nowMs: number;
  readonly #startMs: number;
  #stepMs = 0;
  readonly #waiting = new Set<Waiting>();

  constructor(startMs = 1_700_000_000_000) {
    this.#nowMs = startMs;
    this.#startMs = startMs;
  }

  wallMs(): number {
    return this.#nowMs + this.#stepMs;
  }

  monotonicMs(): number {
    return this.#nowMs - this.#startMs;
  }

  after(ms: number, f: () => void): () => void {
    const w: Waiting = { atMs: this.#nowMs + ms, f };
    this.#waiting.add(w);
    return () => this.#waiting.delete(w);
  }

  /** What is due runs in order of its time, each at its own. */
  advance(ms: number): void {
    const endMs = this.#nowMs + ms;
    for (;;) {
      let next: Waiting | undefined;
      for (const w of this.#waiting) if (next === undefined || w.atMs < next.atMs) next = w;
      if (next === undefined || next.atMs > endMs) break;
      this.#waiting.delete(next);
      this.#nowMs = Math.max(this.#nowMs, next.atMs);
      next.f();
    }
    this.#nowMs = endMs;
  }

  /** Somebody sets the wall clock; no interval changes. */
  stepWall(ms: number): void {
    this.#stepMs += ms;
  }
}
