import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Outcome } from '@plane3/protocol';

/** One promise of a port; `make` gives a fresh adapter on an empty store. */
export interface Case<T> {
  readonly name: string;
  readonly run: (make: () => Promise<T>) => Promise<void>;
}

export function doneOf<T>(outcome: Outcome<T>): T {
  if (outcome.kind !== 'done') assert.fail(JSON.stringify(outcome));
  return outcome.value;
}

const WAIT_MAX_MS = 10_000;

/** Fails when `met` has not come true in time. */
export async function eventually(met: () => boolean): Promise<void> {
  for (const end = Date.now() + WAIT_MAX_MS; !met(); await sleep(5)) {
    if (Date.now() > end) assert.fail(`not in ${WAIT_MAX_MS} ms: ${met}`);
  }
}
