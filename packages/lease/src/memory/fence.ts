import { done, type Outcome, refused } from '@plane3/protocol';
import type { FenceMark, FenceRefusal, FenceSeen } from '../fence.ts';
import type { FencePort } from '../ports.ts';

/** One stream with its fence subject, in memory. */
export class MemoryFence implements FencePort {
  #seq = 0;
  #seen: FenceSeen | undefined;
  /** What was stored behind the fence, in order. */
  readonly stored: { readonly seq: number; readonly what: string }[] = [];

  async read(): Promise<Outcome<FenceSeen | undefined, FenceRefusal>> {
    return done(this.#seen);
  }

  async write(mark: FenceMark, expectedSeq: number): Promise<Outcome<number, FenceRefusal>> {
    const there = this.#seen?.seq ?? 0;
    if (there !== expectedSeq)
      return refused('conflict', `sequence ${there}, expected ${expectedSeq}`);
    this.#seen = { seq: ++this.#seq, mark };
    return done(this.#seq);
  }

  /** A holder's write, which names the fence; false: the broker refuses it. */
  store(what: string, fenceSeq: number): boolean {
    if ((this.#seen?.seq ?? 0) !== fenceSeq) return false;
    this.stored.push({ seq: ++this.#seq, what });
    return true;
  }
}
