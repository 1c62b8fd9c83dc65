import { WorkQueue } from '@plane3/endpoint';
import fc from 'fast-check';
import { expect, test } from 'vitest';

const LIMITS = { runningMax: 3, waitingMax: 4, perCallerMax: 3 };

test('the queue never exceeds its bounds, starts in order, and loses no place whatever the jobs do', async () => {
  const acts = fc.array(
    fc.oneof(
      fc.record({ act: fc.constant('offer' as const), caller: fc.constantFrom('a', 'b', 'c') }),
      fc.record({ act: fc.constant('end' as const), nth: fc.nat(5), fails: fc.boolean() }),
    ),
    { maxLength: 40 },
  );
  await fc.assert(
    fc.asyncProperty(acts, async (list) => {
      const queue = new WorkQueue(LIMITS);
      const running: { caller: string; ok: () => void; fail: (e: Error) => void }[] = [];
      const held = new Map<string, number>();
      const started: number[] = [];
      const change = (caller: string, by: number) => held.set(caller, (held.get(caller) ?? 0) + by);
      let n = 0;
      for (const a of list) {
        if (a.act === 'offer') {
          const mine = n++;
          const full = queue.running >= LIMITS.runningMax && queue.waiting >= LIMITS.waitingMax;
          const own = (held.get(a.caller) ?? 0) >= LIMITS.perCallerMax;
          const taken = queue.offer(
            a.caller,
            () =>
              new Promise<void>((ok, fail) => {
                started.push(mine);
                running.push({ caller: a.caller, ok, fail });
              }),
          );
          expect(taken).toBe(!full && !own);
          if (taken) change(a.caller, 1);
        } else {
          const [job] = running.splice(a.nth % Math.max(1, running.length), 1);
          if (job === undefined) continue;
          if (a.fails) job.fail(new Error('job'));
          else job.ok();
          change(job.caller, -1);
          await new Promise((ok) => setImmediate(ok));
        }
        expect(queue.running).toBe(running.length);
        expect(queue.running).toBeLessThanOrEqual(LIMITS.runningMax);
        expect(queue.waiting).toBeLessThanOrEqual(LIMITS.waitingMax);
      }
      expect(started).toEqual([...started].sort((x, y) => x - y));
      const drained = queue.drain();
      for (const job of running.splice(0)) job.ok();
      await drained;
      expect(queue).toMatchObject({ running: 0, waiting: 0 });
      expect(queue.offer('a', () => Promise.resolve())).toBe(true);
    }),
    { numRuns: 100 },
  );
});
