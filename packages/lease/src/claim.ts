import type {
  Acquiring,
  Ask,
  Decision,
  Doubting,
  Held,
  How,
  Identity,
  LeaseState,
  Releasing,
  RowSeen,
  Step,
  StoredRow,
} from './model.ts';
import { windowMs } from './timing.ts';

/** States that have a request under way or a next one. */
export type Asking = Acquiring | Held | Doubting | Releasing;

export const stay = (state: LeaseState): Step => ({ state, decisions: [] });

/** Mine only with my holder and my incarnation (I26). */
export const isMine = (id: Identity, seen: RowSeen): boolean =>
  seen.row?.holder === id.holder && seen.row.incarnation === id.incarnation;

/** The answer belongs to the request under way; any other is late and says nothing any more. */
export const answers = (ask: Ask, request: number): boolean =>
  ask.kind !== 'none' && ask.request === request;

export function read<S extends Asking>(s: S): Step {
  const request = s.nextRequest;
  return {
    state: { ...s, nextRequest: request + 1, ask: { kind: 'read', request } },
    decisions: [{ kind: 'read-row', request }],
  };
}

export const wait = <S extends Asking>(s: S, atMs: number): Step =>
  stay({ ...s, ask: { kind: 'none', atMs } });

export function write<S extends Asking>(
  s: S,
  o: { expectedRevision: number; how: How; ready: boolean; nowMs: number },
): Step {
  const request = s.nextRequest;
  const row: StoredRow = { ...s.identity, ready: o.ready, attemptMs: o.nowMs };
  const ask: Ask = { kind: 'write', request, row, how: o.how };
  const decision: Decision = {
    kind: 'write-row',
    request,
    row,
    expectedRevision: o.expectedRevision,
  };
  return { state: { ...s, nextRequest: request + 1, ask, wrote: true }, decisions: [decision] };
}

/**
 * A compare-and-set of mine was confirmed while acquiring or in doubt: the row is mine. If the
 * window has passed meanwhile, one renewal more; else the term begins.
 */
export function took(
  s: Acquiring | Doubting,
  revision: number,
  write_: Extract<Ask, { kind: 'write' }>,
  nowMs: number,
): Step {
  const trustedUntilMs = write_.row.attemptMs + windowMs(s.timing);
  if (nowMs >= trustedUntilMs)
    return write(s, { expectedRevision: revision, how: write_.how, ready: false, nowMs });
  const { identity, timing, nextRequest, wrote } = s;
  const state: Held = {
    phase: 'held',
    identity,
    timing,
    nextRequest,
    wrote,
    term: { tookRevision: revision, revision, trustedUntilMs },
    ready: false,
    wantReady: false,
    again: false,
    unsure: false,
    ask: { kind: 'none', atMs: write_.row.attemptMs + timing.renewEveryMs },
  };
  const kind = s.phase === 'acquiring' ? 'held' : 'regained';
  return { state, decisions: [{ kind, revision, how: write_.how }] };
}
