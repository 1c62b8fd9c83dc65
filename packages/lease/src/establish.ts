import { bounded } from './bounded.ts';
import {
  type FenceDecision,
  type FenceEvent,
  type FenceMark,
  startFence,
  stepFence,
} from './fence.ts';
import type { FencePort, Timers } from './ports.ts';

export type FenceEnd = Extract<FenceDecision, { kind: 'established' | 'refused' }>;

/** Runs the fence rule on one stream. The mark may not be used before a later renewal. */
export async function establish(o: {
  readonly port: FencePort;
  readonly mark: FenceMark;
  readonly timers: Timers;
  readonly callMs: number;
  readonly prove: () => Promise<boolean>;
}): Promise<FenceEnd> {
  let { state, decision } = startFence(o.mark);
  for (;;) {
    let event: FenceEvent;
    switch (decision.kind) {
      case 'read':
        event = { kind: 'read', answer: await bounded(o.timers, o.port.read(), o.callMs) };
        break;
      case 'write': {
        const writing = o.port.write(decision.mark, decision.expectedSeq);
        event = { kind: 'written', answer: await bounded(o.timers, writing, o.callMs) };
        break;
      }
      case 'prove':
        event = { kind: 'proved', held: await o.prove() };
        break;
      case 'established':
      case 'refused':
        return decision;
    }
    ({ state, decision } = stepFence(state, event));
  }
}
