import type { Msg, MsgHdrs, NatsConnection } from '@nats-io/nats-core';
import type { Outcome } from '@plane3/protocol';
import type { Transport } from './transport.ts';

export type LinkEventKind =
  | 'connected'
  | 'disconnected'
  | 'reconnected'
  | 'permission-denied'
  /** Disconnected, and there is no credential that may be presented; retried with back-off. */
  | 'credential-unavailable'
  /** The broker refused the credential on a reconnect; retried with back-off. */
  | 'credential-refused'
  /** A handler or listener of ours threw: a defect, contained here. */
  | 'handler-failed'
  | 'closed';

export interface LinkEvent {
  readonly kind: LinkEventKind;
  /** Which connection it belongs to, see {@link Link.generation}. */
  readonly generation: number;
  readonly subject?: string;
  readonly operation?: 'publish' | 'subscription';
  readonly queue?: string;
  readonly detail?: string;
}

export interface LinkOptions {
  /** Shown by the broker's monitoring. */
  readonly name: string;
  readonly servers: readonly string[];
  readonly transport: Transport;
  /**
   * Bytes of a credentials file, read at every connect, so that a renewed one is picked up.
   * A source that throws, an expired credential and one of another user mean: not now. The link
   * stays and tries again with back-off; nothing is sent to the broker meanwhile.
   * Without it there is no authentication, for brokers that want none.
   */
  readonly credentials?: (() => Uint8Array) | undefined;
  /** Bounds the first connect as a whole and each later dial. Default 5 s. */
  readonly connectTimeoutMs?: number;
  /** Two unanswered pings make a connection stale. Default 5 s. */
  readonly pingIntervalMs?: number;
  readonly onEvent?: (e: LinkEvent) => void;
}

export interface LinkSubscription {
  readonly subject: string;
  /** False after `unsubscribe` and after a denial on a later reconnect. */
  readonly active: boolean;
  unsubscribe(): void;
}

export interface Denied {
  readonly operation: 'publish' | 'subscription';
  readonly subject: string;
  readonly queue?: string;
}

/** A broker connection that keeps its word; see {@link openLink}. */
export interface Link {
  readonly nc: NatsConnection;
  /** Public key of the user, empty without authentication. */
  readonly userKey: string;
  /** `_INBOX_<user key>`; the only place where answers can reach this connection. */
  readonly inboxPrefix: string;
  /** 1 after the first connect, one more after each reconnect. */
  readonly generation: number;
  readonly connected: boolean;
  /** Bytes of headers and body together that the broker takes. */
  readonly maxPayload: number;
  readonly serverVersion: string;
  /**
   * Subscribes and waits until the broker has accepted it. `unknown` (timeout, disconnect) leaves
   * nothing behind. An accepted subscription survives reconnects; if it is denied on a later one,
   * it becomes inactive and `onDenied` tells. A handler that throws is reported as an event.
   */
  subscribe(
    subject: string,
    handler: (m: Msg) => void,
    o?: { readonly queue?: string },
  ): Promise<Outcome<LinkSubscription, 'permission-denied'>>;
  /** Fire and forget. Throws `broker-unreachable` while disconnected: nothing is kept for later. */
  publish(
    subject: string,
    body: Uint8Array,
    o?: { readonly headers?: MsgHdrs; readonly reply?: string },
  ): void;
  /** `done` when the broker has processed everything sent before. Default 2 s. */
  flush(timeoutMs?: number): Promise<Outcome<void>>;
  /** Every permission error, as the broker tells it. Answers the function that stops it. */
  onDenied(listener: (d: Denied) => void): () => void;
  onEvent(listener: (e: LinkEvent) => void): () => void;
  /** Drains within a bound, closes, and never comes back, whatever the broker does. */
  close(): Promise<void>;
}
