import { afterEach } from 'vitest';

const undo: (() => unknown)[] = [];

/** Ends what a test started, last first, also when it failed. */
export function later<T>(thing: T, end: (thing: T) => unknown): T {
  undo.push(() => end(thing));
  return thing;
}

afterEach(async () => {
  for (const f of undo.splice(0).reverse()) await f();
});
