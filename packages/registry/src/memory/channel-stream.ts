import { done, type Outcome } from '@plane3/protocol';
import type { Frontier } from '../membership.ts';
import type { FrontierReader } from '../ports.ts';

/** The end of a channel stream in memory, with a broker's clock of its own. */
export class MemoryChannelStream implements FrontierReader {
  /** Raised by hand: time passes for the stream only when told so. */
  nowMs = 0;
  #incarnation: string;
  #storedAtMs: number[] = [];

  constructor(incarnation = '1') {
    this.#incarnation = incarnation;
  }

  get incarnation(): string {
    return this.#incarnation;
  }

  get lastSeq(): number {
    return this.#storedAtMs.length;
  }

  /** Stores a post, answers its sequence. */
  post(): number {
    return this.#storedAtMs.push(this.nowMs);
  }

  recreate(incarnation: string): void {
    this.#incarnation = incarnation;
    this.#storedAtMs = [];
  }

  async read(behind: number | undefined): Promise<Outcome<Frontier>> {
    const at = { incarnation: this.#incarnation, seq: this.lastSeq };
    const storedAtMs = behind === undefined ? undefined : this.#storedAtMs[behind];
    return done(storedAtMs === undefined ? at : { ...at, behindAgeMs: this.nowMs - storedAtMs });
  }
}
