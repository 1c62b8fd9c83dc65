import type { Outcome } from '@plane3/protocol';
import { bounded } from './bounded.ts';
import type { RowRefusal, Timing } from './model.ts';
import type { ExpiryProbePort, ProbeSeen, Timers } from './ports.ts';

/** A row still there this long after its TTL does not expire; the broker's tick is below 1 s. */
export const EXPIRY_SLACK_MS = 2_000;

/**
 * `pending`: not judged yet. `proved`: a key of this bucket ended at its age. `broken`: one did
 * not.
 */
export type ExpiryVerdict = 'pending' | 'proved' | 'broken';

export interface ExpiryPorts {
  readonly probe: ExpiryProbePort;
  readonly timers: Timers;
}

/**
 * Proves that rows of this bucket really end (I30): the settings' echo is no proof. A proof takes a
 * whole TTL, so it never delays a start: a start judges the key that the last start left behind, at
 * once, by two times of the broker's own clock; writes it anew; and judges that one in the
 * background. Nobody depends on it for safety: a rival who has seen one revision for a whole TTL
 * supersedes it whether or not the broker expired it.
 */
export class ExpiryProof {
  readonly #ports: ExpiryPorts;
  readonly #timing: Pick<Timing, 'ttlMs' | 'callTimeoutMs'>;
  readonly #onVerdict: (v: ExpiryVerdict) => void;
  #cancel: () => void = () => {};
  #stopped = false;
  #verdict: ExpiryVerdict = 'pending';

  constructor(
    ports: ExpiryPorts,
    timing: Pick<Timing, 'ttlMs' | 'callTimeoutMs'>,
    onVerdict: (v: ExpiryVerdict) => void,
  ) {
    this.#ports = ports;
    this.#timing = timing;
    this.#onVerdict = onVerdict;
  }

  get verdict(): ExpiryVerdict {
    return this.#verdict;
  }

  /** `broken` if the last start's key has outlived its age; else the background proof begins. */
  async start(): Promise<ExpiryVerdict> {
    const old = await this.#read();
    const wrote = await this.#write();
    if (wrote.kind !== 'done') {
      this.#later(() => this.#again());
      return this.#verdict;
    }
    if (old.kind === 'done' && old.value !== undefined) {
      const mine = await this.#read();
      if (mine.kind === 'done' && mine.value !== undefined) {
        const aliveMs = mine.value.storedMs - old.value.storedMs;
        if (aliveMs > this.#timing.ttlMs + EXPIRY_SLACK_MS) return this.#judge('broken');
      }
    }
    this.#later(() => this.#look(wrote.value));
    return this.#verdict;
  }

  stop(): void {
    this.#stopped = true;
    this.#cancel();
  }

  async #look(revision: number): Promise<void> {
    const o = await this.#read();
    if (this.#stopped) return;
    if (o.kind === 'done' && o.value === undefined) this.#judge('proved');
    else if (o.kind === 'done' && o.value?.revision === revision) this.#judge('broken');
    else await this.#again();
  }

  /** Unanswered, or another start has overwritten the key meanwhile: one round more. */
  async #again(): Promise<void> {
    const wrote = await this.#write();
    if (this.#stopped) return;
    if (wrote.kind === 'done') this.#later(() => this.#look(wrote.value));
    else this.#later(() => this.#again());
  }

  #read(): Promise<Outcome<ProbeSeen | undefined, RowRefusal>> {
    const { probe, timers } = this.#ports;
    return bounded(timers, probe.read(), this.#timing.callTimeoutMs);
  }

  #write(): Promise<Outcome<number, RowRefusal>> {
    const { probe, timers } = this.#ports;
    return bounded(timers, probe.write(), this.#timing.callTimeoutMs);
  }

  #later(f: () => Promise<void>): void {
    if (this.#stopped) return;
    this.#cancel = this.#ports.timers.after(this.#timing.ttlMs + EXPIRY_SLACK_MS, () => {
      f().catch(() => this.#later(f));
    });
  }

  #judge(v: ExpiryVerdict): ExpiryVerdict {
    this.#verdict = v;
    this.#onVerdict(v);
    return v;
  }
}
