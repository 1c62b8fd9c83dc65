import { randomBytes } from 'node:crypto';
import {
  ClosedConnectionError,
  DrainingConnectionError,
  type Msg,
  type MsgHdrs,
} from '@nats-io/nats-core';
import type { Link } from './link.ts';

/** How often overdue requests are looked for; a timeout may be noticed this much later. */
const SWEEP_EVERY_MS = 100;

/**
 * Why no answer came. After `denied` nothing has happened: the broker did not take the request,
 * or it was not sent because the broker does not let answers in. `not-sent`: nothing either. All
 * others leave it open.
 */
export type ReplyFailure =
  | 'timeout'
  | 'disconnected'
  | 'closed'
  | 'inbox-denied'
  | 'not-sent'
  | 'denied';

/** Whoever waits for answers. `token` is what it gave with the request: no closure per request. */
export interface ReplySink<Token> {
  /** True when this was the last message for the request. Must not throw. */
  onReply(token: Token, message: Msg): boolean;
  /** Comes at most once and ends the request. Must not throw. */
  onFailure(token: Token, failure: ReplyFailure, detail: string): void;
}

export interface Request {
  readonly subject: string;
  readonly body: Uint8Array;
  readonly timeoutMs: number;
}

interface Waiting {
  readonly subject: string;
  readonly sink: ReplySink<unknown>;
  readonly token: unknown;
  readonly timeoutMs: number;
  expiresMs: number;
}

/**
 * Requests and their answers on one connection: one wildcard inbox, an integer suffix, a table,
 * one sweep timer. 2–4 µs a request where the client's own takes 16 and more.
 *
 * The inbox holds 128 random bits beside the connection's prefix: the broker never checks the
 * reply subject of a publish, so whoever could guess an open one could have an acknowledgement of
 * its own delivered as ours.
 */
export class Replies {
  readonly #link: Link;
  readonly #prefix: string;
  readonly #waiting = new Map<number, Waiting>();
  readonly #timer: NodeJS.Timeout;
  #next = 1;
  #inboxDenied = false;

  constructor(link: Link) {
    this.#link = link;
    this.#prefix = `${link.inboxPrefix}.${randomBytes(16).toString('base64url')}.`;
    this.#subscribe();
    link.onLost(() => this.#failAll('disconnected'));
    link.onRestored(() => {
      if (this.#inboxDenied) this.#subscribe();
    });
    link.onEvent((e) => {
      if (e.kind === 'closed') clearInterval(this.#timer);
    });
    link.onDenied((d) => {
      if (d.operation === 'publish') this.#failWhere((w) => w.subject === d.subject, 'denied');
    });
    this.#timer = setInterval(() => this.#sweep(), SWEEP_EVERY_MS);
    this.#timer.unref();
  }

  /** The sink hears of it exactly once, never before this returns. */
  send<Token>(
    request: Request,
    headers: MsgHdrs | undefined,
    sink: ReplySink<Token>,
    token: Token,
  ): void {
    if (!this.#link.connected || this.#inboxDenied) {
      const failure = this.#link.connected ? 'denied' : 'not-sent';
      const inbox = `${this.#prefix}*`;
      setImmediate(() => sink.onFailure(token, failure, inbox)); // spares callers recursion
      return;
    }
    const { subject, timeoutMs } = request;
    const id = this.#next++;
    const reply = `${this.#prefix}${id}`;
    try {
      const options = headers === undefined ? { reply } : { reply, headers };
      this.#link.nc.publish(subject, request.body, options);
    } catch (e) {
      if (!(e instanceof ClosedConnectionError || e instanceof DrainingConnectionError)) throw e;
      setImmediate(() => sink.onFailure(token, 'not-sent', 'closed'));
      return;
    }
    const expiresMs = performance.now() + timeoutMs;
    this.#waiting.set(id, {
      subject,
      sink: sink as ReplySink<unknown>,
      token,
      timeoutMs,
      expiresMs,
    });
  }

  /** Ends every open request of one sink. */
  abandon(sink: ReplySink<never>, failure: ReplyFailure): void {
    this.#failWhere((w) => w.sink === sink, failure);
  }

  #subscribe(): void {
    this.#inboxDenied = false;
    this.#link.nc.subscribe(`${this.#prefix}*`, {
      callback: (error, message) => {
        if (error === null) return this.#onMessage(message) as never;
        this.#inboxDenied = true;
        this.#failAll('inbox-denied');
        return undefined as never;
      },
    });
  }

  #onMessage(message: Msg): void {
    const id = Number(message.subject.slice(this.#prefix.length));
    const waiting = this.#waiting.get(id);
    if (waiting === undefined) return; // late: its request has been answered as unknown
    if (waiting.sink.onReply(waiting.token, message)) this.#waiting.delete(id);
    else waiting.expiresMs = performance.now() + waiting.timeoutMs;
  }

  #sweep(): void {
    const now = performance.now();
    this.#failWhere((w) => w.expiresMs <= now, 'timeout');
  }

  #failAll(failure: ReplyFailure): void {
    this.#failWhere(() => true, failure);
  }

  #failWhere(match: (w: Waiting) => boolean, failure: ReplyFailure): void {
    const end = this.#next; // what a callback sends meanwhile stands behind, and is not looked at
    for (const [id, waiting] of this.#waiting) {
      if (id >= end) return;
      if (!match(waiting)) continue;
      this.#waiting.delete(id);
      waiting.sink.onFailure(waiting.token, failure, waiting.subject);
    }
  }
}

const perLink = new WeakMap<Link, Replies>();

/** The one table of a link, made at the first use. */
export function repliesOf(link: Link): Replies {
  let replies = perLink.get(link);
  if (replies === undefined) {
    replies = new Replies(link);
    perLink.set(link, replies);
  }
  return replies;
}
