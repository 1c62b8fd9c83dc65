import {
  AuthorizationError,
  type Msg,
  type MsgHdrs,
  type NatsConnection,
  PermissionViolationError,
  type Status,
  UserAuthenticationExpiredError,
} from '@nats-io/nats-core';
import { done, type Outcome, Plane3Error, refused, unknown } from '@plane3/protocol';
import { abandonDial } from './client-internals.ts';
import { type Dialler, dial } from './dial.ts';
import type { Denial, LinkEvent, LinkOptions, LinkSubscription } from './link-types.ts';

const FLUSH_TIMEOUT_MS = 2_000;
const DRAIN_MAX_MS = 2_000;
const CLOSE_MAX_MS = 1_000;

/**
 * One connection to a broker that keeps its word.
 *
 * - The transport is demanded on every dial; what a listener greets with decides nothing.
 * - It never gives up by itself: it reconnects for ever, with the credential read anew each time.
 *   An expired, unreadable or missing one is never put on the wire.
 * - Permission errors are awaited and matched to the call, not missed.
 */
export class Link {
  readonly nc: NatsConnection;
  /** Public key of the user; empty without authentication. */
  readonly userKey: string;
  /** `_INBOX_<user key>`, the only place where answers reach this connection (wire contract 1). */
  readonly inboxPrefix: string;
  readonly #dialler: Dialler;
  readonly #events = new Set<(e: LinkEvent) => void>();
  readonly #denials = new Set<(d: Denial) => void>();
  readonly #losses = new Set<() => void>();
  readonly #restorations = new Set<() => void>();
  #generation = 1;
  #connected = true;
  #maxPayload = 0;
  #serverVersion = '';
  #closing: Promise<void> | undefined;
  #disconnectedMs = 0;

  /**
   * Bounded; throws what the credential source threw, `credential-unreadable`,
   * `credential-expired`, `credential-refused`, `transport-refused` or `broker-unreachable`.
   */
  static async open(options: LinkOptions): Promise<Link> {
    const { nc, dialler, userKey, inboxPrefix } = await dial(options);
    return new Link(nc, dialler, { userKey, inboxPrefix, onEvent: options.onEvent });
  }

  private constructor(
    nc: NatsConnection,
    dialler: Dialler,
    o: {
      readonly userKey: string;
      readonly inboxPrefix: string;
      readonly onEvent: ((e: LinkEvent) => void) | undefined;
    },
  ) {
    this.nc = nc;
    this.userKey = o.userKey;
    this.inboxPrefix = o.inboxPrefix;
    this.#dialler = dialler;
    if (o.onEvent !== undefined) this.#events.add(o.onEvent);
    dialler.onUnavailable = (e) => this.#emit('credential-unavailable', { detail: e.message });
    this.#readServerInfo();
    void this.#followStatus();
    this.#emit('connected');
  }

  /**
   * 1 after the first connect, one more after each reconnect: handles of an earlier one are
   * suspect.
   */
  get generation(): number {
    return this.#generation;
  }
  /** False from the moment on that `close` was called: what is on its way still ends. */
  get connected(): boolean {
    return this.#connected && this.#closing === undefined;
  }
  /** Bytes of headers and body together that the broker takes. */
  get maxPayload(): number {
    return this.#maxPayload;
  }
  get serverVersion(): string {
    return this.#serverVersion;
  }

  /**
   * Subscribes and waits until the broker has accepted it. `unknown` (timeout, disconnect) leaves
   * nothing behind. An accepted subscription survives reconnects; if it is denied on a later one
   * it becomes inactive and `onDenied` tells. A handler that throws is reported as an event.
   */
  async subscribe(
    subject: string,
    handler: (m: Msg) => void,
    o: { readonly queue?: string } = {},
  ): Promise<Outcome<LinkSubscription, 'permission-denied'>> {
    if (!this.connected) return unknown('disconnected');
    let denied = false;
    const subscription = this.nc.subscribe(subject, {
      ...o,
      callback: (error, message) => {
        if (error !== null) denied = true;
        else this.guard(subject, handler, message);
      },
    });
    // The broker answers a ping only after it has refused what came before it.
    const flushed = await this.flush();
    if (denied) return refused('permission-denied', subject);
    if (flushed.kind !== 'done') {
      subscription.unsubscribe();
      return unknown(flushed.kind === 'unknown' ? flushed.cause : 'not flushed');
    }
    return done({
      subject,
      get active() {
        return !subscription.isClosed();
      },
      unsubscribe: () => {
        if (!subscription.isClosed()) subscription.unsubscribe();
      },
    });
  }

  /**
   * Fire and forget. Throws `broker-unreachable` while disconnected and once it is being closed:
   * nothing is kept for later.
   */
  publish(
    subject: string,
    body: Uint8Array,
    o: { readonly headers?: MsgHdrs; readonly reply?: string } = {},
  ): void {
    if (this.#closing !== undefined)
      throw new Plane3Error('broker-unreachable', { detail: 'the connection is being closed' });
    if (!this.#connected)
      throw new Plane3Error('broker-unreachable', {
        detail: `since ${new Date(this.#disconnectedMs).toISOString()}`,
      });
    this.nc.publish(subject, body, { ...o });
  }

  /** `done` when the broker has processed everything sent before. */
  async flush(timeoutMs = FLUSH_TIMEOUT_MS): Promise<Outcome<void>> {
    if (!this.connected) return unknown('disconnected');
    const { generation } = this;
    const answered = await within(timeoutMs, this.nc.flush());
    // A ping that was queued while the connection went is answered by the next one.
    const same = generation === this.#generation && this.connected;
    if (answered === 'done' && same) return done(undefined);
    return unknown(answered === 'late' ? 'timeout' : 'disconnected');
  }

  /** Every permission error, as the broker tells it. Answers the function that ends it. */
  onDenied(listener: (d: Denial) => void): () => void {
    this.#denials.add(listener);
    return () => void this.#denials.delete(listener);
  }

  onEvent(listener: (e: LinkEvent) => void): () => void {
    this.#events.add(listener);
    return () => void this.#events.delete(listener);
  }

  /** Called at each loss of the connection, before any event of it. */
  onLost(listener: () => void): () => void {
    this.#losses.add(listener);
    return () => void this.#losses.delete(listener);
  }

  onRestored(listener: () => void): () => void {
    this.#restorations.add(listener);
    return () => void this.#restorations.delete(listener);
  }

  /** Drains within a bound, closes, and never comes back, whatever the broker does. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#dialler.closing = true;
    if (this.#connected) await within(DRAIN_MAX_MS, this.nc.drain());
    this.#setLost();
    const closed = within(CLOSE_MAX_MS, this.nc.close());
    abandonDial(this.nc, 'closed'); // a dial under way would otherwise become a connection
    await closed;
    this.#emit('closed');
    for (const set of [this.#events, this.#denials, this.#losses, this.#restorations]) set.clear();
  }

  async #followStatus(): Promise<void> {
    for await (const status of this.nc.status()) this.#onStatus(status);
    if (this.#dialler.closing) return;
    this.#setLost();
    this.#emit('closed', { detail: 'the client closed itself' });
  }

  #onStatus(status: Status): void {
    // The client repeats both: after a failed dial, and once for each dial that shared a success.
    if (status.type === 'disconnect' && this.#connected) {
      this.#disconnectedMs = Date.now();
      this.#setLost();
      this.#emit('disconnected');
    } else if (status.type === 'reconnect' && !this.#connected && !this.#dialler.closing) {
      this.#connected = true;
      this.#generation++;
      this.#dialler.accepted();
      this.#readServerInfo();
      for (const listener of [...this.#restorations]) this.guard('restored', listener, undefined);
      this.#emit('reconnected');
    } else if (status.type === 'error') {
      this.#onError(status.error);
    }
  }

  #onError(error: Error): void {
    if (error instanceof PermissionViolationError) {
      const { operation, subject, queue } = error;
      const denial: Denial = { operation, subject, ...(queue === undefined ? {} : { queue }) };
      for (const listener of [...this.#denials]) this.guard(subject, listener, denial);
      this.#emit('permission-denied', { denial });
    } else if (
      error instanceof AuthorizationError ||
      error instanceof UserAuthenticationExpiredError
    ) {
      if (this.#dialler.refused()) this.#emit('credential-refused', { detail: error.message });
    }
  }

  #setLost(): void {
    if (!this.#connected) return;
    this.#connected = false;
    for (const listener of [...this.#losses]) this.guard('lost', listener, undefined);
  }

  #readServerInfo(): void {
    const { info } = this.nc;
    this.#maxPayload = info?.max_payload ?? this.#maxPayload;
    this.#serverVersion = info?.version ?? this.#serverVersion;
  }

  /**
   * Calls what others gave. An exception would end the client's read loop: deaf, and still
   * connected.
   * @internal
   */
  guard<T>(where: string, fn: (x: T) => void, x: T): void {
    try {
      fn(x);
    } catch (e) {
      const detail = e instanceof Error ? (e.stack ?? e.message) : String(e);
      this.#emit('handler-failed', { detail: `${where}: ${detail}` });
    }
  }

  #emit(kind: LinkEvent['kind'], facts: Omit<LinkEvent, 'kind' | 'generation'> = {}): void {
    const event: LinkEvent = { kind, generation: this.#generation, ...facts };
    for (const listener of [...this.#events]) {
      if (kind !== 'handler-failed') this.guard(kind, listener, event);
      else
        try {
          listener(event);
        } catch {
          // It was told of a failed handler and failed: there is nobody left to tell.
        }
    }
  }
}

/** Waits for `work` at most `timeoutMs`; a rejection counts as failed. Never throws. */
async function within(
  timeoutMs: number,
  work: Promise<unknown>,
): Promise<'done' | 'late' | 'failed'> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<'late'>((ok) => {
    timer = setTimeout(() => ok('late'), timeoutMs);
  });
  const settled = work.then(
    () => 'done' as const,
    () => 'failed' as const,
  );
  try {
    return await Promise.race([settled, late]);
  } finally {
    clearTimeout(timer);
  }
}

export const openLink = (options: LinkOptions): Promise<Link> => Link.open(options);
