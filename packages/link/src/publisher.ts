import type { Msg } from '@nats-io/nats-core';
import { done, type Outcome, refused, unknown } from '@plane3/protocol';
import { type ApiError, detailOf, isTransient, publishRefusalOf } from './api-codes.ts';
import { asMsgHdrs, encodeHeaders, type HeaderList } from './header-block.ts';
import type { Link } from './link.ts';
import { type Replies, type ReplyFailure, type ReplySink, repliesOf } from './replies.ts';

export type PublishRefusal =
  /** An expected last sequence did not hold; the detail has the broker's words and code. */
  | 'wrong-sequence'
  | 'store-full'
  | 'too-large'
  | 'permission-denied'
  /** No stream listens on the subject. */
  | 'no-stream'
  | 'rejected';

export interface Stored {
  readonly stream: string;
  readonly seq: number;
  /** The broker says that it had the message id already. Not a proof: see wire contract 4. */
  readonly duplicate: boolean;
}

export type PublishAnswer = Outcome<Stored, PublishRefusal>;
type OnAnswer = (o: PublishAnswer) => void;

const TIMEOUT_MS = 5_000;
const WINDOW_MAX = 8_192;
const NO_RESPONDERS = 503;

/**
 * Pipelined publishes into streams, each with its own acknowledgement.
 *
 * Every publish is answered exactly once, and never before the call returned: `done` with what
 * was stored, `refused` with a reason that the broker gave or that was known before sending, or
 * `unknown` after a timeout, a disconnect or `close()`. An `unknown` one may be stored, now or
 * later: repeat it under the same `Nats-Msg-Id` or read back.
 *
 * Callers keep to the window by awaiting {@link room}. Beyond twice the window nothing is sent
 * any more and the answer is `unknown`.
 */
export class Publisher implements ReplySink<OnAnswer> {
  readonly #link: Link;
  readonly #replies: Replies;
  readonly #timeoutMs: number;
  readonly #windowMax: number;
  readonly #rooms: (() => void)[] = [];
  #open = 0;
  #closed = false;

  constructor(link: Link, o: { readonly timeoutMs?: number; readonly windowMax?: number } = {}) {
    this.#link = link;
    this.#replies = repliesOf(link);
    this.#timeoutMs = o.timeoutMs ?? TIMEOUT_MS;
    this.#windowMax = o.windowMax ?? WINDOW_MAX;
  }

  /** Publishes sent and not answered. */
  get open(): number {
    return this.#open;
  }

  publish(
    subject: string,
    body: Uint8Array,
    headers: HeaderList | undefined,
  ): Promise<PublishAnswer> {
    return new Promise((ok) => this.publishWith(subject, body, headers, ok));
  }

  /** The fast path: no promise. What `onAnswer` throws is an event of the link. */
  publishWith(
    subject: string,
    body: Uint8Array,
    headers: HeaderList | undefined,
    onAnswer: OnAnswer,
  ): void {
    if (this.#closed || this.#open >= 2 * this.#windowMax) {
      const cause = this.#closed ? 'closed' : 'window full';
      setImmediate(() => this.#answer(onAnswer, unknown(cause)));
      return;
    }
    const block = headers === undefined ? undefined : encodeHeaders(headers);
    if (headers !== undefined && block === undefined) {
      setImmediate(() => this.#answer(onAnswer, refused('rejected', 'line break in a header')));
      return;
    }
    const bytes = body.length + (block?.length ?? 0);
    if (bytes > this.#link.maxPayload) {
      const detail = `${bytes} bytes, at most ${this.#link.maxPayload}`;
      setImmediate(() => this.#answer(onAnswer, refused('too-large', detail)));
      return;
    }
    this.#open++;
    const request = { subject, body, timeoutMs: this.#timeoutMs };
    const hdrs = block === undefined ? undefined : asMsgHdrs(block);
    try {
      this.#replies.send(request, hdrs, this, onAnswer);
    } catch (e) {
      this.#open--; // an impossible subject: a defect of the caller
      throw e;
    }
  }

  /** Resolves when fewer than `windowMax` are open; in order of asking. Also after `close()`. */
  room(): Promise<void> {
    if (this.#open < this.#windowMax || this.#closed) return Promise.resolve();
    return new Promise((ok) => this.#rooms.push(ok));
  }

  /** Every open publish answers `unknown`; later ones too. The link stays. */
  close(): void {
    this.#closed = true;
    this.#replies.abandon(this, 'closed');
    for (const ok of this.#rooms.splice(0)) ok();
  }

  /** @internal */
  onReply(onAnswer: OnAnswer, message: Msg): boolean {
    this.#settle(onAnswer, outcomeOf(message));
    return true;
  }

  /** @internal */
  onFailure(onAnswer: OnAnswer, failure: ReplyFailure, detail: string): void {
    this.#settle(
      onAnswer,
      failure === 'denied' ? refused('permission-denied', detail) : unknown(failure),
    );
  }

  #answer(onAnswer: OnAnswer, outcome: PublishAnswer): void {
    this.#link.guard('publish answer', onAnswer, outcome);
  }

  #settle(onAnswer: OnAnswer, outcome: PublishAnswer): void {
    this.#open--;
    this.#answer(onAnswer, outcome);
    // One waiter for each place that became free: all at once would overshoot the window.
    if (this.#open < this.#windowMax) this.#rooms.shift()?.();
  }
}

/** An acknowledgement as the broker writes it; matching it costs a third of parsing it. */
const PLAIN_ACK = /^\{"stream":"([\w-]+)",\s?"seq":([1-9]\d{0,15})\}$/;

function outcomeOf(message: Msg): PublishAnswer {
  const text = message.string();
  const plain = PLAIN_ACK.exec(text);
  if (plain !== null)
    return done({ stream: plain[1] as string, seq: Number(plain[2]), duplicate: false });
  if (message.data.length === 0 && message.headers?.code === NO_RESPONDERS)
    return refused('no-stream', 'nobody listens on the subject');
  let ack: { stream?: unknown; seq?: unknown; duplicate?: unknown; error?: ApiError };
  try {
    ack = JSON.parse(text);
  } catch {
    return unknown('malformed answer');
  }
  const { error } = ack;
  if (error !== undefined) {
    if (isTransient(error)) return unknown(detailOf(error));
    return refused(publishRefusalOf(error), detailOf(error));
  }
  const { stream, seq } = ack;
  if (typeof stream !== 'string' || typeof seq !== 'number' || seq < 1)
    return unknown('malformed answer');
  return done({ stream, seq, duplicate: ack.duplicate === true });
}
