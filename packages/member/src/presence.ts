import type { Publisher } from '@plane3/link';
import {
  bucketSubject,
  type Lifecycle,
  PRESENCE_HEARTBEAT_MS,
  type Presence,
  principalId,
} from '@plane3/protocol';

/** The member's own presence record (wire contract section 4): when it is there, not what it may. */
export interface PresenceOptions {
  readonly publisher: Publisher;
  readonly bucket: string;
  readonly member: Lifecycle;
  readonly name: string;
  readonly role?: string | undefined;
  readonly onFailure: () => void;
  readonly nowMs: () => number;
}

export class PresenceBeat {
  readonly #o: PresenceOptions;
  #status: Presence['status'] = 'idle';
  #timer: NodeJS.Timeout | undefined;

  constructor(options: PresenceOptions) {
    this.#o = options;
  }

  /** Writes at once and then every heartbeat. */
  async start(): Promise<void> {
    this.#timer = setInterval(() => void this.#write(), PRESENCE_HEARTBEAT_MS);
    await this.#write();
  }

  async set(status: Presence['status']): Promise<void> {
    this.#status = status;
    await this.#write();
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.set('offline');
  }

  async #write(): Promise<void> {
    const { bucket, member, name, role, publisher, nowMs, onFailure } = this.#o;
    const id = principalId(member);
    const record: Presence = {
      card: { id, name, kind: 'agent', ...(role === undefined ? {} : { role }) },
      status: this.#status,
      lifecycleUid: member.uid,
      ts: nowMs(),
    };
    const body = new TextEncoder().encode(JSON.stringify(record));
    const written = await publisher.publish(bucketSubject(bucket, id), body, undefined);
    if (written.kind !== 'done') onFailure();
  }
}
