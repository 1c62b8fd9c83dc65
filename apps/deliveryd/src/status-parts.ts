import type { StatusData, StatusPart } from '@plane3/endpoint';
import type { FanOutStatus } from '@plane3/fan-out';
import type { ReaderStatus } from '@plane3/reader';
import type { RegistryStatus } from '@plane3/registry';
import { flatCounters } from './counters.ts';

export interface StatusFacts {
  readonly fanOut: FanOutStatus;
  readonly reader: ReaderStatus;
  readonly registry: RegistryStatus;
  readonly schedules: StatusPart;
  readonly evictor: 'present' | 'absent';
  /** Wall clock ms at which this term began to serve. */
  readonly sinceMs: number;
}

/** The parts of `status`, from the daemon's own facts. */
export function statusParts(f: StatusFacts): StatusData['parts'] {
  const { fanOut, reader, registry, sinceMs: since } = f;
  return {
    fan_out: {
      state: fanOut.phase === 'running' && !fanOut.waitsForDirectory ? 'serving' : 'degraded',
      since: fanOut.since,
      ...(fanOut.reason === undefined ? {} : { reason: fanOut.reason.detail }),
      counters: flatCounters({
        ...fanOut.counters,
        cursor_lag: fanOut.cursorLag,
        copies_open: fanOut.copiesOpen,
      }),
    },
    reader: {
      state: reader.phase === 'serving' && !reader.handOverMissing ? 'serving' : 'degraded',
      since,
      ...(reader.handOverMissing
        ? { reason: 'the hand-over stream is missing: entries wait in the store' }
        : {}),
      counters: flatCounters(reader.counters),
    },
    registry: {
      state: registry.state === 'serving' ? 'serving' : 'degraded',
      since,
      counters: flatCounters({ ...registry.counters, rows: registry.rows }),
    },
    schedule_writer: f.schedules,
    observer: {
      state: 'serving',
      since,
      facts: {
        eviction:
          f.evictor === 'present' ? 'provisioned' : 'deny-new only, eviction not provisioned',
      },
    },
  };
}

/** The schedule writer is a lodger: its faults are shown, and never make delivery look degraded. */
export function overallState(
  ready: boolean,
  parts: StatusData['parts'],
): { readonly state: string; readonly reason?: string } {
  if (!ready) return { state: 'starting' };
  const bad = Object.entries(parts).filter(
    ([name, part]) => name !== 'schedule_writer' && part.state !== 'serving',
  );
  if (bad.length === 0) return { state: 'serving' };
  return { state: 'degraded', reason: bad.map(([n, part]) => `${n} ${part.state}`).join(', ') };
}
