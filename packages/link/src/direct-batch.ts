import type { Msg } from '@nats-io/nats-core';
import { done, type Outcome, refused, unknown } from '@plane3/protocol';
import type { ReplyFailure, ReplySink } from './replies.ts';
import { fromDirect, type StoredMessage } from './stored-message.ts';

export interface BatchRead {
  readonly messages: StoredMessage[];
  /** The broker said that nothing further matches. */
  readonly complete: boolean;
}

type Refusal = 'not-found' | 'permission-denied' | 'rejected';

const END_OF_BATCH = 204;
const NOTHING_FOUND = 404;
const NO_RESPONDERS = 503;

/** Collects the messages of one batched direct get and proves that none is missing. */
export class DirectBatch implements ReplySink<unknown> {
  readonly #messages: StoredMessage[] = [];
  readonly #settle: (o: Outcome<BatchRead, Refusal>) => void;
  #lastSeq = 0;

  constructor(settle: (o: Outcome<BatchRead, Refusal>) => void) {
    this.#settle = settle;
  }

  onReply(_: unknown, m: Msg): boolean {
    const code = m.headers?.code ?? 0;
    if (code === 0) return this.#take(m);
    if (code === END_OF_BATCH) {
      const whole = Number(m.headers?.last('Nats-Last-Sequence')) === this.#lastSeq;
      const pending = Number(m.headers?.last('Nats-Num-Pending'));
      this.#settle(
        whole
          ? done({ messages: this.#messages, complete: pending === 0 })
          : unknown('hole in batch'),
      );
    } else if (code === NOTHING_FOUND) {
      this.#settle(done({ messages: [], complete: true }));
    } else if (code === NO_RESPONDERS) {
      this.#settle(refused('not-found', 'no such stream, or it allows no direct get'));
    } else {
      this.#settle(refused('rejected', `${m.headers?.description} (${code})`));
    }
    return true;
  }

  onFailure(_: unknown, failure: ReplyFailure, detail: string): void {
    this.#settle(failure === 'denied' ? refused('permission-denied', detail) : unknown(failure));
  }

  #take(m: Msg): boolean {
    const direct = fromDirect(m);
    if (direct === undefined || direct.previousSeq !== this.#lastSeq) {
      this.#settle(unknown(direct === undefined ? 'malformed answer' : 'hole in batch'));
      return true;
    }
    this.#lastSeq = direct.message.seq;
    this.#messages.push(direct.message);
    return false;
  }
}
