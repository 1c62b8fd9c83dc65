import { type Outcome, unknown } from '@plane3/protocol';
import type { Clock, Timers } from './ports.ts';

/** An answer within the time, or `unknown`; never a rejection. */
export function bounded<T, R extends string>(
  timers: Timers,
  call: Promise<Outcome<T, R>>,
  callMs: number,
): Promise<Outcome<T, R>> {
  return new Promise((ok) => {
    const cancel = timers.after(callMs, () => ok(unknown(`no answer in ${callMs} ms`)));
    const end = (o: Outcome<T, R>): void => {
      cancel();
      ok(o);
    };
    call.then(end, (e: unknown) => end(unknown(e instanceof Error ? e.message : String(e))));
  });
}

export interface Insistence {
  readonly clock: Clock;
  readonly timers: Timers;
  readonly callMs: number;
  readonly retryMs: number;
  readonly untilMs: number;
  /** The caller has given up meanwhile. */
  readonly ended: () => boolean;
}

/** Asks until there is an answer or the time is over. */
export async function insist<T, R extends string>(
  o: Insistence,
  call: () => Promise<Outcome<T, R>>,
): Promise<Outcome<T, R>> {
  for (;;) {
    const answer = await bounded(o.timers, call(), o.callMs);
    if (answer.kind !== 'unknown' || o.clock.nowMs() >= o.untilMs || o.ended()) return answer;
    await new Promise<void>((ok) => {
      o.timers.after(o.retryMs, ok);
    });
  }
}
