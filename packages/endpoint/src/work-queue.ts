/** Bounds of an endpoint's work. */
export interface WorkLimits {
  /** Handlers that run at a time. */
  readonly runningMax: number;
  /** Requests that wait for a handler. */
  readonly waitingMax: number;
  /** Running and waiting requests of one caller: one caller holds no other's place. */
  readonly perCallerMax: number;
}

export const WORK_LIMITS: WorkLimits = { runningMax: 32, waitingMax: 512, perCallerMax: 16 };

interface Job {
  readonly caller: string;
  readonly run: () => Promise<void>;
}

/** A bounded first-in-first-out queue of handlers; what does not fit is refused, never kept. */
export class WorkQueue {
  readonly #limits: WorkLimits;
  readonly #waiting: Job[] = [];
  readonly #perCaller = new Map<string, number>();
  #running = 0;
  #idle: (() => void)[] = [];

  constructor(limits: WorkLimits = WORK_LIMITS) {
    this.#limits = limits;
  }

  get running(): number {
    return this.#running;
  }

  get waiting(): number {
    return this.#waiting.length;
  }

  /** Whether it was taken. `run` must not reject; if it does the place is freed all the same. */
  offer(caller: string, run: () => Promise<void>): boolean {
    const held = this.#perCaller.get(caller) ?? 0;
    if (held >= this.#limits.perCallerMax) return false;
    const free = this.#running < this.#limits.runningMax;
    if (!free && this.#waiting.length >= this.#limits.waitingMax) return false;
    this.#perCaller.set(caller, held + 1);
    this.#waiting.push({ caller, run });
    this.#pump();
    return true;
  }

  /** Resolves once nothing runs; what waits is dropped. */
  async drain(): Promise<void> {
    for (const job of this.#waiting.splice(0)) this.#release(job.caller);
    if (this.#running > 0) await new Promise<void>((ok) => this.#idle.push(ok));
  }

  #pump(): void {
    while (this.#running < this.#limits.runningMax) {
      const job = this.#waiting.shift();
      if (job === undefined) return;
      this.#running++;
      job
        .run()
        .catch(() => undefined)
        .finally(() => this.#ended(job))
        .catch(() => undefined);
    }
  }

  #ended(job: Job): void {
    this.#running--;
    this.#release(job.caller);
    this.#pump();
    if (this.#running === 0) for (const ok of this.#idle.splice(0)) ok();
  }

  #release(caller: string): void {
    const left = (this.#perCaller.get(caller) ?? 1) - 1;
    if (left > 0) this.#perCaller.set(caller, left);
    else this.#perCaller.delete(caller);
  }
}
