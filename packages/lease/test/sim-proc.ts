import { type FenceStep, initial, type LeaseState, type Timing } from '@plane3/lease';

/** One process: the real machine, and what the world does to it. */
export interface Proc {
  readonly name: string;
  readonly incarnation: string;
  readonly host: string;
  readonly pid: number;
  readonly offsetMs: number;
  state: LeaseState;
  dead: boolean;
  ended: boolean;
  stalledUntilMs: number;
  cutUntilMs: number;
  fenceSeq: number | undefined;
  fencing: { run: number; step: FenceStep | undefined; waiting: 'prove' | 'last' | undefined };
  fencingSinceMs: number;
  term: number;
}

/** Slots 0 and 1 share a host, so that one can prove the other dead; the others are alone. */
export function newProc(slot: number, n: number, offsetMs: number, timing: Timing): Proc {
  return {
    name: `p${slot}`,
    incarnation: `i${n}`,
    host: slot < 2 ? 'h0' : `h${slot}`,
    pid: n,
    offsetMs,
    state: initial(
      {
        holder: 'local.delivery',
        incarnation: `i${n}`,
        since: 0,
        host: { boot: slot < 2 ? 'h0' : `h${slot}`, pid: n, start: String(n) },
      },
      timing,
    ),
    dead: false,
    ended: false,
    stalledUntilMs: 0,
    cutUntilMs: 0,
    fenceSeq: undefined,
    fencing: { run: 0, step: undefined, waiting: undefined },
    fencingSinceMs: 0,
    term: 0,
  };
}
