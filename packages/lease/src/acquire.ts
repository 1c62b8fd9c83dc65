import { answers, isMine, read, stay, took, wait, write } from './claim.ts';
import type {
  Acquiring,
  Ask,
  HostVerdict,
  Idle,
  LeaseEvent,
  Refusal,
  RowSeen,
  Step,
} from './model.ts';
import { bucketRefusal } from './refusal.ts';
import { startRelease } from './release.ts';

/** Compare-and-sets lost in one acquisition: beyond that the row belongs to nobody for long. */
const CONFLICTS_MAX = 64;

export function startAcquire(s: Idle, nowMs: number, waitMs: number): Step {
  return read<Acquiring>({
    ...s,
    phase: 'acquiring',
    startedMs: nowMs,
    waitUntilMs: nowMs + waitMs,
    answeredMs: nowMs,
    ask: { kind: 'none', atMs: nowMs },
    rival: undefined,
    conflicts: 0,
  });
}

export function acquiring(s: Acquiring, e: LeaseEvent): Step {
  switch (e.kind) {
    case 'read':
      return answers(s.ask, e.request) ? onRead(s, e) : stay(s);
    case 'written':
      return s.ask.kind === 'write' && answers(s.ask, e.request) ? onWritten(s, s.ask, e) : stay(s);
    case 'judged':
      return s.ask.kind === 'judge' && answers(s.ask, e.request)
        ? onRival(s, s.ask.seen, e.verdict, e.nowMs)
        : stay(s);
    case 'noticed':
      return s.ask.kind === 'none' ? read(s) : stay(s);
    case 'tick':
      return s.ask.kind === 'none' && e.nowMs >= s.ask.atMs ? read(s) : stay(s);
    case 'release': {
      const { state, decisions } = startRelease(s, e.nowMs);
      const refusal: Refusal = { kind: 'cancelled', detail: 'released while acquiring' };
      return { state, decisions: [{ kind: 'refused', refusal }, ...decisions] };
    }
    case 'acquire':
    case 'renew':
    case 'fence-refused':
    case 'quiesced':
      return stay(s);
  }
}

function refuse(s: Acquiring, refusal: Refusal): Step {
  const { identity, timing, nextRequest, wrote } = s;
  return {
    state: { phase: 'idle', identity, timing, nextRequest, wrote },
    decisions: [{ kind: 'refused', refusal }],
  };
}

function onRead(s0: Acquiring, e: Extract<LeaseEvent, { kind: 'read' }>): Step {
  const { answer, nowMs } = e;
  if (answer.kind === 'unknown') {
    if (nowMs - s0.answeredMs >= s0.timing.startMaxMs)
      return refuse(s0, { kind: 'unreachable', detail: answer.cause });
    return wait(s0, nowMs + s0.timing.retryMs);
  }
  if (answer.kind === 'refused') return refuse(s0, bucketRefusal(answer.reason, answer.detail));
  const s = { ...s0, answeredMs: nowMs };
  const seen = answer.value;
  if (seen === undefined)
    return write(s, { expectedRevision: 0, how: 'created', ready: false, nowMs });
  if (isMine(s.identity, seen))
    return write(s, { expectedRevision: seen.revision, how: 'created', ready: false, nowMs });
  if (seen.row === undefined) return onRival(s, seen, 'unknown', nowMs);
  const request = s.nextRequest;
  return {
    state: { ...s, nextRequest: request + 1, ask: { kind: 'judge', request, seen } },
    decisions: [{ kind: 'judge-host', request, host: seen.row.host }],
  };
}

/**
 * What a row of somebody else means. It ends by itself within its TTL; until then it is the
 * holder's, unless the holder is proved dead on this very host, or I have seen the same revision
 * for a whole TTL on my own clock: then its window has passed even if the broker never expires it.
 */
function onRival(s0: Acquiring, seen: RowSeen, verdict: HostVerdict, nowMs: number): Step {
  const { timing } = s0;
  const known = s0.rival;
  if (known !== undefined && known.revision !== seen.revision)
    return refuse(s0, held('held-and-alive', seen, seen.ageMs, timing.ttlMs));
  const rival = known ?? { revision: seen.revision, firstSeenMs: nowMs };
  const s = { ...s0, rival };
  const watchedMs = nowMs - rival.firstSeenMs;
  if (verdict === 'dead' || watchedMs >= timing.ttlMs)
    return write(s, { expectedRevision: seen.revision, how: 'superseded', ready: false, nowMs });
  const ageMs = Math.max(seen.ageMs, watchedMs);
  if (verdict === 'alive' && ageMs <= timing.renewEveryMs + timing.callTimeoutMs)
    return refuse(s, held('held-and-alive', seen, ageMs, timing.ttlMs));
  if (nowMs - s.startedMs >= timing.observeMs && nowMs >= s.waitUntilMs)
    return refuse(s, held('held-and-not-answering', seen, ageMs, timing.ttlMs));
  return wait(s, nowMs + timing.retryMs);
}

const held = (
  kind: 'held-and-alive' | 'held-and-not-answering',
  seen: RowSeen,
  ageMs: number,
  ttlMs: number,
): Refusal => ({
  kind,
  holder: seen.row?.holder,
  incarnation: seen.row?.incarnation,
  host: seen.row?.host,
  ageMs,
  expiresInMs: Math.max(0, ttlMs - ageMs),
});

function onWritten(
  s: Acquiring,
  ask: Extract<Ask, { kind: 'write' }>,
  e: Extract<LeaseEvent, { kind: 'written' }>,
): Step {
  const { answer, nowMs } = e;
  if (answer.kind === 'done') return took(s, answer.value, ask, nowMs);
  // Whether it landed is read back: the row then says so, and its anchor with it.
  if (answer.kind === 'unknown') return read(s);
  if (answer.reason !== 'conflict') return refuse(s, bucketRefusal(answer.reason, answer.detail));
  const conflicts = s.conflicts + 1;
  if (conflicts >= CONFLICTS_MAX)
    return refuse(s, { kind: 'contended', detail: `${conflicts} lost compare-and-sets` });
  // Whoever was quicker is judged by what is there now; a lost race alone says nothing.
  return read({ ...s, conflicts, answeredMs: nowMs });
}
