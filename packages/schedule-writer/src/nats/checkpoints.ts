import type { JetStreamApi } from '@plane3/link';
import {
  BROKER_HEADERS,
  bucketStream,
  bucketSubject,
  checkpointStatusKey,
  checkpointStatusSchema,
  parseRecord,
} from '@plane3/protocol';
import type { CheckpointSeen } from '../model.ts';
import type { Checkpoints } from '../ports.ts';

/** Where a value was deleted, purged or expired, a message with one of these stands. */
const MARKERS = ['KV-Operation', 'Nats-Marker-Reason'];

/** Status rows of the records bucket in the vault, from the leader of its stream. */
export class NatsCheckpoints implements Checkpoints {
  readonly #api: JetStreamApi;
  readonly #bucket: string;

  constructor(api: JetStreamApi, bucket: string) {
    this.#api = api;
    this.#bucket = bucket;
  }

  async status(endpoint: string, timerId: string): Promise<CheckpointSeen> {
    const key = checkpointStatusKey(endpoint, timerId);
    const row = await this.#api.lastOf(
      bucketStream(this.#bucket),
      bucketSubject(this.#bucket, key),
    );
    if (row.kind === 'unknown') return { kind: 'unknown', cause: row.cause };
    if (row.kind === 'refused')
      return { kind: 'unknown', cause: `${row.reason} ${row.detail}`.trim() };
    const m = row.value;
    if (m === undefined || MARKERS.some((h) => m.header(h) !== undefined))
      return { kind: 'absent' };
    if (BROKER_HEADERS.some((h) => m.header(h) !== undefined)) return { kind: 'unreadable' };
    const status = parseRecord(checkpointStatusSchema, m.body);
    return status === undefined ? { kind: 'unreadable' } : { kind: 'status', status };
  }
}
