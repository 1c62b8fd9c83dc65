import type { LeaseStatus } from '@plane3/lease';
import type { Publisher } from '@plane3/link';
import { bucketSubject, leaseKey, type SpaceNames } from '@plane3/protocol';

/** Copy of the lease row in the space account, for displays; it gates nothing. */
export class LeaseDisplay {
  readonly #publisher: Publisher;
  readonly #subject: string;

  constructor(publisher: Publisher, names: SpaceNames, shard: number) {
    this.#publisher = publisher;
    this.#subject = bucketSubject(names.buckets.lease, leaseKey(shard));
  }

  show(status: LeaseStatus, holder: string, ready: boolean): void {
    const { incarnation } = status;
    const body = JSON.stringify({ holder, incarnation, ready, since: Date.now() });
    // Lost or refused: the next renewal shows it again.
    this.#publisher.publishWith(this.#subject, new TextEncoder().encode(body), undefined, () => {});
  }
}
