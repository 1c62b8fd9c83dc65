/** How long a nonce is remembered; requests older than this have passed every deadline. */
const NONCE_AGE_MAX_MS = 600_000;
/** Beyond this many the oldest are forgotten first. */
const NONCES_MAX = 65_536;

/** Remembers the nonces of accepted requests, bounded in number and age. Time is an input. */
export class NonceCache {
  readonly #seenAtMs = new Map<string, number>();
  readonly #max: number;
  readonly #ageMaxMs: number;

  constructor(max: number = NONCES_MAX, ageMaxMs: number = NONCE_AGE_MAX_MS) {
    this.#max = max;
    this.#ageMaxMs = ageMaxMs;
  }

  get size(): number {
    return this.#seenAtMs.size;
  }

  has(key: string, nowMs: number): boolean {
    const at = this.#seenAtMs.get(key);
    return at !== undefined && nowMs - at < this.#ageMaxMs;
  }

  add(key: string, nowMs: number): void {
    for (const [oldest, at] of this.#seenAtMs) {
      if (nowMs - at < this.#ageMaxMs && this.#seenAtMs.size < this.#max) break;
      this.#seenAtMs.delete(oldest);
    }
    this.#seenAtMs.delete(key);
    this.#seenAtMs.set(key, nowMs);
  }
}
