/** Flat numbers of a counter object, as `status` shows them; nested ones get dotted names. */
export function flatCounters(counters: object, prefix = ''): Record<string, number> {
  const out: Record<string, number> = {};
  for (const [name, value] of Object.entries(counters)) {
    if (typeof value === 'number') out[`${prefix}${name}`] = value;
    else if (typeof value === 'object' && value !== null)
      Object.assign(out, flatCounters(value as object, `${prefix}${name}.`));
  }
  return out;
}
