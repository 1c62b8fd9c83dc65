import type { Gate } from './model.ts';

export const gate = (max: number): Gate => ({ max, inside: new Set(), waiting: new Set() });

/** Whether `key` is inside; otherwise it waits its turn. */
export function enter(g: Gate, key: string): boolean {
  if (g.inside.has(key)) return true;
  if (g.inside.size >= g.max) {
    g.waiting.add(key);
    return false;
  }
  g.waiting.delete(key);
  g.inside.add(key);
  return true;
}

/** Lets `key` go; answers who is inside in its place. */
export function leave(g: Gate, key: string): string | undefined {
  g.waiting.delete(key);
  if (!g.inside.delete(key)) return undefined;
  for (const next of g.waiting) {
    g.waiting.delete(next);
    g.inside.add(next);
    return next;
  }
  return undefined;
}
