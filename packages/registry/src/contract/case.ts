import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Outcome } from '@plane3/protocol';

/** A promise of a port, to be kept by every adapter. Run it in any test framework. */
export interface Case<H> {
  readonly name: string;
  run(make: () => Promise<H>): Promise<void>;
}

const EVENTUALLY_MS = 10_000;
const POLL_MS = 10;

export function doneOf<T>(o: Outcome<T>): T {
  assert.equal(o.kind, 'done', JSON.stringify(o));
  return (o as Extract<Outcome<T>, { kind: 'done' }>).value;
}

export async function eventually(look: () => boolean, what: string): Promise<void> {
  const untilMs = performance.now() + EVENTUALLY_MS;
  while (!look()) {
    assert.ok(performance.now() < untilMs, `${what} did not happen`);
    await sleep(POLL_MS);
  }
}

/** A case with a harness of its own, ended whatever happens. */
export const caseOf = <H extends { end(): Promise<void> }>(
  name: string,
  body: (harness: H) => Promise<void>,
): Case<H> => ({
  name,
  run: async (make) => {
    const harness = await make();
    try {
      await body(harness);
    } finally {
      await harness.end();
    }
  },
});
