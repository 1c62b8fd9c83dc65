import type { Timers } from './ports.ts';

/** Listeners of one kind of news. A listener's fault is its own: counted, never passed on. */
export class Listeners<T> {
  private readonly set = new Set<(value: T) => void>();
  faults = 0;

  add(listener: (value: T) => void): () => void {
    this.set.add(listener);
    return () => this.set.delete(listener);
  }

  get none(): boolean {
    return this.set.size === 0;
  }

  tell(value: T): void {
    for (const listener of this.set) {
      try {
        listener(value);
      } catch {
        this.faults++;
      }
    }
  }
}

/** Waits for conditions that only change when `wake` is called; each wait is bounded. */
export class Waiters {
  private readonly timers: Timers;
  private readonly open = new Set<{ ready: () => boolean; finish: (met: boolean) => void }>();

  constructor(timers: Timers) {
    this.timers = timers;
  }

  /** Whether `ready` came true within `waitMs`. */
  until(ready: () => boolean, waitMs: number): Promise<boolean> {
    if (ready()) return Promise.resolve(true);
    return new Promise((resolve) => {
      const waiter = {
        ready,
        finish: (met: boolean) => {
          this.open.delete(waiter);
          cancel();
          resolve(met);
        },
      };
      const cancel = this.timers.after(waitMs, () => waiter.finish(ready()));
      this.open.add(waiter);
    });
  }

  wake(): void {
    for (const waiter of this.open) if (waiter.ready()) waiter.finish(true);
  }
}
