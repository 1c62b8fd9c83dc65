import {
  ScheduleWriter,
  type ScheduleWriterSettings,
  type WriterEvent,
} from '@plane3/schedule-writer';
import { MemoryTimers, MemoryWorld } from '@plane3/schedule-writer/memory';
import { PREFIX } from './facts.ts';

/** Lets everything that is ready run; no time passes. */
export const settle = async (): Promise<void> => {
  for (let i = 0; i < 50; i++) await Promise.resolve();
  await new Promise((ok) => setImmediate(ok));
};

export function rig(o: Partial<ScheduleWriterSettings> = {}) {
  const timers = new MemoryTimers();
  const world = new MemoryWorld(timers, { prefix: PREFIX });
  const events: WriterEvent[] = [];
  const make = (): ScheduleWriter =>
    new ScheduleWriter(
      {
        sessions: world,
        clock: timers,
        timers,
        random: () => 0.5,
        onEvent: (e) => events.push(e),
      },
      { prefix: PREFIX, ...o },
    );
  /** In small steps, so that what is due in between happens in between. */
  const pass = async (ms: number): Promise<void> => {
    const stepMs = Math.max(10, ms / 50);
    for (let left = ms; left > 0; left -= stepMs) {
      timers.advance(Math.min(stepMs, left));
      await settle();
    }
  };
  return { timers, world, events, make, writer: make(), pass };
}
