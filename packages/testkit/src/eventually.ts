import { setTimeout as sleep } from 'node:timers/promises';

export interface EventuallyOptions {
  /** Default 10 s. */
  readonly timeoutMs?: number;
  /** Default 10 ms. */
  readonly everyMs?: number;
}

/**
 * Repeats `fn` until it neither throws nor answers `false` or `undefined`, and gives its answer.
 * When the time is over it throws the last error, or says what was asked last.
 */
export async function eventually<T>(
  fn: () => T | Promise<T>,
  options: EventuallyOptions = {},
): Promise<Exclude<T, false | undefined>> {
  const { timeoutMs = 10_000, everyMs = 10 } = options;
  const end = performance.now() + timeoutMs;
  for (;;) {
    let failure: unknown;
    try {
      const answer = await fn();
      if (answer !== false && answer !== undefined) return answer as never;
      failure = new Error(`still ${answer} after ${timeoutMs} ms: ${fn}`);
    } catch (e) {
      failure = e;
    }
    if (performance.now() >= end) throw failure;
    await sleep(everyMs);
  }
}
