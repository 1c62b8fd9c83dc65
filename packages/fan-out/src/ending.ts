import type { Decision, State, Trouble } from './model.ts';

/** How a run ends or pauses: laws B and C of `machine.ts`. */

/** Takes nothing more and forgets what is decided but not issued; the replay decides it again. */
export function halt(s: State, out: Decision[]): void {
  s.waiting.clear();
  s.asked = 0;
  s.deciding = false;
  s.directoryCurrent = true;
  s.issuing = undefined;
  out.push({ kind: 'close-source' });
}

const writesOpen = (s: State): number =>
  s.copiesOpen + s.checksOpen + s.burialsOpen + (s.cursorOpen === undefined ? 0 : 1);

export function end(s: State, what: Trouble, detail: string): void {
  s.phase = 'stopped';
  s.reason = { trouble: what, detail };
}

/** Law B and D: whatever is wrong, stop taking, await what is open, back off, recover. */
export function trouble(s: State, what: Trouble, detail: string, out: Decision[]): void {
  if (s.phase === 'running' || s.phase === 'recovering') {
    s.phase = 'draining';
    s.reason = { trouble: what, detail };
    halt(s, out);
  }
  goOnWhenDrained(s, out);
}

/** Law C: another holder writes now, so nothing is awaited. */
export function fenceLost(s: State, detail: string, out: Decision[]): void {
  if (s.phase === 'stopped' || s.phase === 'idle') return;
  halt(s, out);
  end(s, 'fence-lost', detail);
  out.push({ kind: 'fence-lost', detail });
}

/** The next step of `draining` and `stopping` once the last open write is answered. */
export function goOnWhenDrained(s: State, out: Decision[]): void {
  if (writesOpen(s) > 0) return;
  if (s.phase === 'stopping') end(s, 'requested', '');
  else if (s.phase === 'draining') backOff(s, out);
}

function backOff(s: State, out: Decision[]): void {
  for (const work of s.window) {
    for (const c of work.copies) if (c.stored) s.announced.set(c.entry, work.seq);
  }
  s.window.clear();
  s.finished = 0;
  s.phase = 'backing-off';
  s.counters.recoveries++;
  const doublings = Math.min(s.recoveriesInARow++, 16);
  const afterMs = Math.min(s.limits.backOffMaxMs, s.limits.backOffMinMs * 2 ** doublings);
  out.push({ kind: 'retry-after', afterMs });
}
