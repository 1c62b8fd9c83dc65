/**
 * Dotted patterns as the broker matches them, for subjects and channels alike: `*` stands for one
 * whole token, `>` for one or more at the end. Nothing is validated here.
 */

/** Whether everything that `inner` (a pattern or a concrete name) stands for is covered by `outer`. */
export function patternContains(outer: string, inner: string): boolean {
  const o = outer.split('.');
  const n = inner.split('.');
  for (let i = 0; i < o.length; i++) {
    if (o[i] === '>') return n.length > i;
    if (n[i] === undefined || n[i] === '>') return false;
    if (o[i] !== '*' && o[i] !== n[i]) return false;
  }
  return o.length === n.length;
}

/** Whether some concrete name is covered by both patterns. */
export function patternsOverlap(a: string, b: string): boolean {
  const left = a.split('.');
  const right = b.split('.');
  for (let i = 0; ; i++) {
    const l = left[i];
    const r = right[i];
    if (l === undefined || r === undefined) return l === r;
    if (l === '>' || r === '>') return true;
    if (l !== '*' && r !== '*' && l !== r) return false;
  }
}
