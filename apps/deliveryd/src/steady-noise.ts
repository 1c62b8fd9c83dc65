/** Lines of one kind that are written within a window before the rest is only counted. */
const LINES_MAX = 10;
const WINDOW_MS = 60_000;
/** Kinds that are told apart; beyond them all share one. */
const KINDS_MAX = 256;

interface Kind {
  sinceMs: number;
  lines: number;
  unwritten: number;
}

/**
 * Keeps the log short: what repeats is counted, not repeated, whoever makes it repeat. The first
 * lines of each window are written; the next one that is says how many were not.
 */
export class SteadyNoise {
  readonly #nowMs: () => number;
  readonly #kinds = new Map<string, Kind>();

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  /** `undefined`: not to be written; otherwise how many lines of the kind were not written before. */
  admit(kind: string): number | undefined {
    const nowMs = this.#nowMs();
    const key = this.#kinds.size < KINDS_MAX || this.#kinds.has(kind) ? kind : '';
    const k = this.#kinds.get(key) ?? { sinceMs: nowMs, lines: 0, unwritten: 0 };
    this.#kinds.set(key, k);
    if (nowMs - k.sinceMs >= WINDOW_MS) {
      k.sinceMs = nowMs;
      k.lines = 0;
    }
    if (k.lines >= LINES_MAX) {
      k.unwritten++;
      return undefined;
    }
    k.lines++;
    const { unwritten } = k;
    k.unwritten = 0;
    return unwritten;
  }
}
