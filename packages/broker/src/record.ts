import { rm } from 'node:fs/promises';
import { Plane3Error } from '@plane3/protocol';
import { type PidRecord, readPidFile, removePidRecord } from './pid-record.ts';
import { type StopOptions, type Stopped, stopProcess } from './stop.ts';

export interface BrokerFacts {
  /** False between the start of the process and the proof that it serves. */
  readonly ready: boolean;
  /** Address it listens on; `host` of the identity is the machine's name. */
  readonly listenHost: string;
  readonly port: number;
  /** `nats://<listenHost>:<port>`; says nothing about TLS, which the mesh record decides. */
  readonly url: string;
  readonly monitorUrl?: string;
  readonly bin: string;
  readonly configFile: string;
  readonly logFile?: string;
  readonly startedAtMs: number;
}

export type BrokerRecord = PidRecord<BrokerFacts>;

export type FoundBroker =
  | { readonly kind: 'absent' }
  /** The very process of the record runs. It serves, or did, if `record.ready`. */
  | { readonly kind: 'running'; readonly record: BrokerRecord }
  /** A record of a broker that does not run any more. */
  | { readonly kind: 'stale'; readonly record: BrokerRecord }
  /** A file that is none of ours, or a process that cannot be proved from here. */
  | { readonly kind: 'unprovable'; readonly detail: string };

/** Where a broker writes the ports it got, beside its record. */
export const portsFolderOf = (recordFile: string): string => `${recordFile}.ports`;

/** What the record of a broker is worth at this moment. */
export async function findBroker(recordFile: string): Promise<FoundBroker> {
  const file = await readPidFile<BrokerFacts>(recordFile);
  if (file.kind === 'absent') return file;
  if (file.kind === 'unreadable') return { kind: 'unprovable', detail: file.detail };
  const { record, standing } = file;
  if (standing === 'proved-ours') return { kind: 'running', record };
  if (standing !== 'unprovable') return { kind: 'stale', record };
  return {
    kind: 'unprovable',
    detail: `${recordFile} names process ${record.pid}, which cannot be proved from here`,
  };
}

/**
 * Stops the broker of a record and removes the record. Idempotent: `was-gone` if there is none or
 * it is stale. Throws `not-ours` if nobody can prove whose process it is, and signals nobody then.
 */
export async function stopBroker(recordFile: string, o: StopOptions = {}): Promise<Stopped> {
  const found = await findBroker(recordFile);
  if (found.kind === 'absent') return 'was-gone';
  if (found.kind === 'unprovable') throw unprovable(recordFile, found.detail);
  const stopped = await stopProcess(found.record, o);
  await removePidRecord(recordFile, found.record);
  await rm(portsFolderOf(recordFile), { recursive: true, force: true });
  return stopped;
}

export const unprovable = (recordFile: string, detail: string): Plane3Error =>
  new Plane3Error('not-ours', {
    detail,
    help: `look at it, stop it by hand, then remove ${recordFile}`,
    context: { recordFile },
  });
