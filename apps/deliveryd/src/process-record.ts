import { identify, type PidRecord, removePidRecord, writePidRecord } from '@plane3/broker';
import { Plane3Error } from '@plane3/protocol';

export interface DaemonFacts {
  readonly incarnation: string;
  readonly space: string;
}

/** The daemon's own record of itself, written after it holds the lease; removed only if its own. */
export class ProcessRecord {
  readonly #file: string;
  #record: PidRecord<DaemonFacts> | undefined;

  constructor(file: string) {
    this.#file = file;
  }

  async write(facts: DaemonFacts): Promise<void> {
    const self = await identify();
    if (self === undefined)
      throw new Plane3Error('not-ours', {
        detail: 'this system does not tell the identity of processes',
        help: 'run it on Linux or macOS',
      });
    this.#record = { ...self, ...facts };
    await writePidRecord(this.#file, this.#record);
  }

  async remove(): Promise<void> {
    if (this.#record !== undefined) await removePidRecord(this.#file, this.#record);
  }
}
