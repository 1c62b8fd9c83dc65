import type { CredentialSource } from './credential.ts';
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
  readonly detail?: string;
  /** With `permission-denied`. */
  readonly denial?: Denial;
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
  readonly credentials?: CredentialSource | undefined;
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

export interface Denial {
  readonly operation: 'publish' | 'subscription';
  readonly subject: string;
  readonly queue?: string;
}
