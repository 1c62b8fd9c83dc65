import { BROKER_HEADERS, parseRecord, parseTimer, timerRequestSchema } from '@plane3/protocol';
import type { JudgedRequest, Refusal, RefusalReason, RequestFacts } from './model.ts';

/** A request is four small fields. */
export const REQUEST_BYTES_MAX = 1_024;

/** `Nats-Schedule`, `-Target`, `-Rollup`, `-TTL`, `Nats-Scheduler`, and what the broker adds later. */
const SCHEDULE_HEADER = /^nats-schedul/i;
const BROKER_MADE = new Set(BROKER_HEADERS.map((h) => h.toLowerCase()));

const refuse = (reason: RefusalReason, detail: string): Refusal => ({
  kind: 'refuse',
  reason,
  detail,
});

/**
 * Whether a request may be looked at further, from itself alone (wire contract sections 2 and 7).
 * Headers of the broker's scheduler must come from the writer only: they could target any subject.
 */
export function judge(prefix: string, facts: RequestFacts): JudgedRequest | Refusal {
  const timer = parseTimer(prefix, facts.subject);
  if (timer === undefined || timer.verb !== 'schedule')
    return refuse('subject', 'not the subject of a timer request');
  for (const name of facts.headerNames) {
    if (SCHEDULE_HEADER.test(name)) return refuse('schedule-header', name);
    if (BROKER_MADE.has(name.toLowerCase())) return refuse('broker-header', name);
  }
  if (facts.body.length > REQUEST_BYTES_MAX)
    return refuse('body', `${facts.body.length} bytes, at most ${REQUEST_BYTES_MAX}`);
  const request = parseRecord(timerRequestSchema, facts.body);
  if (request === undefined) return refuse('body', 'not {v:1, timerId, generation, deadline}');
  if (request.timerId !== timer.timerId)
    return refuse('timer-id', 'the body names another timer than the subject');
  return { kind: 'request', timer, request };
}
