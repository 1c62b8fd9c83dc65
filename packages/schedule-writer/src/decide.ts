import type { CheckpointStatus } from '@plane3/protocol';
import type { ArmedSeen, ArmOrder, DecideInput, Decision } from './model.ts';

/**
 * Between our clock and the broker's at most this is assumed. Further before its deadline a timer
 * cannot have fired, so nobody needs to look.
 */
export const CLOCK_SKEW_MS_MAX = 60_000;

/** Whether the stored fire decides anything for this deadline. */
export const mayHaveFired = (deadlineMs: number, nowMs: number): boolean =>
  deadlineMs <= nowMs + CLOCK_SKEW_MS_MAX;

const outage = (why: string): Decision => ({ kind: 'retry', why, blame: 'outage' });
const notYet = (why: string): Decision => ({ kind: 'retry', why, blame: 'request' });

/**
 * What to do with a well-formed request. Target comes from its subject, time and generation from
 * the authoritative status; the request only asks to look (wire contract section 7).
 *
 * Whatever cannot be told is retried, never dropped and never armed. The same facts always give
 * the same answer, so a request that is handed over again after any crash ends the same way.
 */
export function decide(input: DecideInput): Decision {
  const { judged, checkpoint, armed, deliveries, limits } = input;
  const hasPatience = deliveries < limits.patienceDeliveries;
  if (checkpoint.kind === 'unknown') return outage(`checkpoint unknown: ${checkpoint.cause}`);
  if (checkpoint.kind === 'unreadable') return notYet('checkpoint unreadable');
  if (checkpoint.kind === 'absent') {
    if (hasPatience) return notYet('checkpoint absent');
    return { kind: 'refuse', reason: 'no-checkpoint', detail: judged.timer.timerId };
  }
  const { status } = checkpoint;
  if (armed.kind === 'unknown') return outage(`armed schedule unknown: ${armed.cause}`);
  if (status.state !== 'waiting') return { kind: 'settled', disarmSeq: seqOf(armed) };
  const { generation } = judged.request;
  if (generation < status.deadlineGeneration) return { kind: 'stale' };
  if (generation > status.deadlineGeneration) {
    if (hasPatience) return notYet('checkpoint has not reached the generation');
    const detail = `${generation}, the checkpoint is at ${status.deadlineGeneration}`;
    return { kind: 'refuse', reason: 'generation-ahead', detail };
  }
  return decideCurrent(input, status, armed);
}

/** The request is for the generation that the checkpoint waits in. */
function decideCurrent(
  input: DecideInput,
  status: Readonly<CheckpointStatus>,
  armed: Exclude<ArmedSeen, { kind: 'unknown' }>,
): Decision {
  const { judged, fired, nowMs, limits } = input;
  const deadlineMs = status.deadline;
  const isTime = Number.isSafeInteger(deadlineMs) && deadlineMs >= 0;
  if (!isTime || deadlineMs - nowMs > limits.deadlineLimitMs)
    return { kind: 'refuse', reason: 'deadline-beyond-limit', detail: String(deadlineMs) };
  if (armed.kind === 'schedule') {
    if (armed.armed.generation > status.deadlineGeneration) return { kind: 'stale' };
    const isSame =
      armed.armed.generation === status.deadlineGeneration && armed.armed.deadlineMs === deadlineMs;
    if (isSame) return { kind: 'already-armed' };
  }
  if (mayHaveFired(deadlineMs, nowMs)) {
    if (fired.kind === 'unknown') return outage(`stored fire unknown: ${fired.cause}`);
    if (fired.kind === 'fired' && fired.generation >= status.deadlineGeneration)
      return { kind: 'already-fired' };
  }
  const order: ArmOrder = {
    timer: judged.timer,
    atMs: deadlineMs,
    expectedSeq: seqOf(armed),
    body: {
      v: 1,
      timerId: judged.timer.timerId,
      generation: status.deadlineGeneration,
      deadline: deadlineMs,
    },
  };
  return { kind: deadlineMs <= nowMs ? 'fire-now' : 'arm', order };
}

const seqOf = (armed: Exclude<ArmedSeen, { kind: 'unknown' }>): number =>
  armed.kind === 'nothing' ? 0 : armed.seq;
