import type { Decision, FanOutCursor, PostInWork, State } from './model.ts';

/** How the cursor moves: law A of `machine.ts`. */

/** Moves over the gapless row of finished posts only. */
export function advance(s: State, out: Decision[]): void {
  for (let work = s.window.at(s.finished); work?.open === 0; work = s.window.at(s.finished)) {
    s.finished++;
    s.completed = work.seq;
  }
  if (s.late !== undefined && s.late.seq <= s.completed) s.late = undefined;
  writeCursorIfBehind(s, out);
}

/** One write is open at a time; whatever finishes meanwhile goes into the next. */
export function writeCursorIfBehind(s: State, out: Decision[]): void {
  if (s.cursorOpen !== undefined || s.incarnation === '') return;
  const { cursor } = s;
  const current = cursor?.incarnation === s.incarnation && cursor.seq >= s.completed;
  if (!current) writeCursor(s, out);
}

export function writeCursor(s: State, out: Decision[]): void {
  s.cursorOpen = { incarnation: s.incarnation, seq: s.completed, ...floors(s) };
  out.push({ kind: 'write-cursor', cursor: s.cursorOpen });
}

/**
 * Below what sequence of either store nothing belongs to a later post. What the last recovery
 * found lies below the floors of the posts that were decided after it, so until those posts are
 * finished the floors of that time stay.
 */
function floors(s: State): { storeFloor: number; deadFloor: number } {
  if (s.completed < s.foundThrough) return s.recoveredFloors;
  const next = s.window.at(s.finished);
  const storeFloor = next?.storeFloor ?? s.storeSeq;
  return {
    storeFloor: s.late === undefined ? storeFloor : Math.min(storeFloor, s.late.storeSeq - 1),
    deadFloor: next?.deadFloor ?? s.deadSeq,
  };
}

/**
 * A write that nobody could answer for may reach the store after the scan that looked for it. It
 * then lies below the floor of its post, and the cursor's floor must go down to it.
 */
export function noteLate(s: State, work: PostInWork, storeSeq: number): void {
  if (storeSeq > work.storeFloor) return;
  s.late = {
    seq: Math.max(work.seq, s.late?.seq ?? 0),
    storeSeq: Math.min(storeSeq, s.late?.storeSeq ?? storeSeq),
  };
}

export function covered(s: State, cursor: FanOutCursor, out: Decision[]): void {
  s.cursor = cursor;
  if (s.phase === 'recovering') out.push({ kind: 'open-source', fromSeq: s.completed + 1 });
  else s.recoveriesInARow = 0; // only progress ends the growth of the back-off
  const { seq } = cursor;
  for (let work = s.window.at(0); work !== undefined && work.seq <= seq; work = s.window.at(0)) {
    s.window.shift();
    s.finished--;
  }
  for (const [entry, of] of s.announced) if (of <= seq) s.announced.delete(entry);
  if (seq >= s.foundThrough) {
    s.slots.clear();
    s.buried.clear();
  }
  out.push({ kind: 'cursor-stored', cursor });
}
