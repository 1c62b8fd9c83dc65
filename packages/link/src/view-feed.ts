import { randomBytes } from 'node:crypto';
import { AckPolicy, DeliverPolicy } from '@nats-io/jetstream';
import { type Msg, nanos } from '@nats-io/nats-core';
import { done, type Outcome, refused } from '@plane3/protocol';
import type { ApiRefusal, JetStreamApi } from './api.ts';
import { isBrokerMade, isMarker } from './bucket.ts';
import type { Link } from './link.ts';
import type { LinkSubscription } from './link-types.ts';

/** The broker removes the consumer of a view that is gone after this time. */
const ABANDONED_AFTER_MS = 30_000;

export interface Row {
  readonly key: string;
  readonly revision: number;
  /** `undefined`: deleted. */
  readonly value: Uint8Array | undefined;
  /** It bears headers that only the broker may set: made by trickery, its value decides nothing. */
  readonly forged: boolean;
}

/** One message of the consumer. */
export interface Delivery {
  readonly row: Row;
  /** How many matching messages the stream had beyond this one. */
  readonly pending: number;
}

/**
 * The ordered consumer of one view: pushed, in memory, unacknowledged, under one name for the
 * life of the view. It is deleted before it is made again, so there is never a second one.
 *
 * Rights needed: on the bucket's stream `CONSUMER.CREATE.<stream>.<name>.<filter>`,
 * `CONSUMER.DELETE`, `CONSUMER.INFO` and `STREAM.INFO`, and the own reply inbox.
 */
export class ViewFeed {
  readonly name = `view_${randomBytes(8).toString('hex')}`;
  readonly #link: Link;
  readonly #api: JetStreamApi;
  readonly #stream: string;
  readonly #filter: string;
  readonly #keyAt: number;
  #subscription: LinkSubscription | undefined;
  #opened = 0;
  #received = 0;

  constructor(
    link: Link,
    api: JetStreamApi,
    bucket: { stream: string; prefix: string; filter: string },
  ) {
    this.#link = link;
    this.#api = api;
    this.#stream = bucket.stream;
    this.#filter = `${bucket.prefix}${bucket.filter}`;
    this.#keyAt = bucket.prefix.length;
  }

  /** Messages of this consumer seen so far: its own sequence, without a gap. */
  get received(): number {
    return this.#received;
  }

  /**
   * Starts over: the last message of every key, then everything new. Answers how many the first
   * part has. `onGap` is called at most once, when messages are missing; nothing is delivered
   * after it.
   */
  async open(
    onDelivery: (d: Delivery) => void,
    onGap: () => void,
  ): Promise<Outcome<number, ApiRefusal>> {
    const closed = await this.close();
    if (closed.kind !== 'done') return closed;
    this.#received = 0;
    const subject = `${this.#link.inboxPrefix}.${this.name}.${++this.#opened}`;
    const subscribed = await this.#link.subscribe(subject, (m) =>
      this.#onMessage(m, onDelivery, onGap),
    );
    if (subscribed.kind === 'refused') return refused('permission-denied', subject);
    if (subscribed.kind === 'unknown') return subscribed;
    this.#subscription = subscribed.value;
    const created = await this.#api.consumerCreate(this.#stream, {
      name: this.name,
      deliver_subject: subject,
      deliver_policy: DeliverPolicy.LastPerSubject,
      filter_subject: this.#filter,
      ack_policy: AckPolicy.None,
      mem_storage: true,
      num_replicas: 1,
      inactive_threshold: nanos(ABANDONED_AFTER_MS),
    });
    // Some may have been delivered before the answer; together they are the first part.
    return created.kind === 'done'
      ? done(created.value.num_pending + created.value.delivered.consumer_seq)
      : created;
  }

  /** Whether the consumer has anything that was not delivered; `not-found`: it is gone. */
  async progress(): Promise<Outcome<{ pending: number; delivered: number }, ApiRefusal>> {
    const info = await this.#api.consumerInfo(this.#stream, this.name);
    if (info.kind !== 'done') return info;
    return done({
      pending: info.value.num_pending,
      delivered: info.value.delivered.consumer_seq,
    });
  }

  /** Unsubscribes at once; `done` when the consumer is proved to be gone. */
  async close(): Promise<Outcome<void, ApiRefusal>> {
    this.#subscription?.unsubscribe();
    this.#subscription = undefined;
    if (this.#opened === 0) return done(undefined);
    const deleted = await this.#api.consumerDelete(this.#stream, this.name);
    return deleted.kind === 'done' ? done(undefined) : deleted;
  }

  #onMessage(m: Msg, onDelivery: (d: Delivery) => void, onGap: () => void): void {
    const at = parsePosition(m.reply ?? '');
    if (at === undefined) return; // not of the consumer: nothing else may count here
    if (at.consumerSeq !== this.#received + 1) {
      this.#subscription?.unsubscribe();
      onGap();
      return;
    }
    this.#received++;
    onDelivery({ row: this.#rowOf(m, at.streamSeq), pending: at.pending });
  }

  #rowOf(m: Msg, revision: number): Row {
    const { headers } = m;
    const message = {
      header: (name: string) => (headers?.has(name) ? headers.get(name) : undefined),
    };
    return {
      key: m.subject.slice(this.#keyAt),
      revision,
      value: isMarker(message) ? undefined : m.data,
      forged: isBrokerMade(message),
    };
  }
}

interface Position {
  readonly streamSeq: number;
  readonly consumerSeq: number;
  readonly pending: number;
}

/**
 * `$JS.ACK.[<domain>.<account>.]<stream>.<consumer>.<deliveries>.<seq>.<consumer
 * seq>.<ns>.<pending>`
 */
function parsePosition(reply: string): Position | undefined {
  const t = reply.split('.');
  if (t[0] !== '$JS' || t[1] !== 'ACK' || t.length < 9) return undefined;
  const at = t.length === 9 ? 5 : 7;
  return {
    streamSeq: Number(t[at]),
    consumerSeq: Number(t[at + 1]),
    pending: Number(t[at + 3]),
  };
}
