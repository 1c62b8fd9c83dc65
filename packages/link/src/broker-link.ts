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
import type { Denied, Link, LinkEvent, LinkSubscription } from './link.ts';

const FLUSH_TIMEOUT_MS = 2_000;
const DRAIN_MAX_MS = 2_000;
const CLOSE_MAX_MS = 1_000;

/** What the link needs of the part that dials. */
export interface DialControl {
  closing: boolean;
  onUnavailable: (e: Plane3Error) => void;
  adopt(nc: NatsConnection): void;
  refused(): boolean;
  accepted(): void;
}

export interface LinkIdentity {
  readonly userKey: string;
  readonly inboxPrefix: string;
  readonly onEvent?: (e: LinkEvent) => void;
}

export class BrokerLink implements Link {
  readonly nc: NatsConnection;
  readonly userKey: string;
  readonly inboxPrefix: string;
  generation = 1;
  connected = true;
  maxPayload = 0;
  serverVersion = '';
  readonly #dial: DialControl;
  readonly #events = new Set<(e: LinkEvent) => void>();
  readonly #denials = new Set<(d: Denied) => void>();
  #closing: Promise<void> | undefined;
  #disconnectedMs = 0;

  constructor(nc: NatsConnection, dial: DialControl, identity: LinkIdentity) {
    this.nc = nc;
    this.userKey = identity.userKey;
    this.inboxPrefix = identity.inboxPrefix;
    this.#dial = dial;
    if (identity.onEvent !== undefined) this.#events.add(identity.onEvent);
    dial.adopt(nc);
    dial.onUnavailable = (e) => this.#emit('credential-unavailable', { detail: e.message });
    this.#readServerInfo();
    void this.#followStatus();
    this.#emit('connected');
  }

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
        else this.#guard(subject, handler, message);
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

  publish(
    subject: string,
    body: Uint8Array,
    o: { readonly headers?: MsgHdrs; readonly reply?: string } = {},
  ): void {
    if (!this.connected)
      throw new Plane3Error('broker-unreachable', {
        detail: `since ${new Date(this.#disconnectedMs).toISOString()}`,
      });
    this.nc.publish(subject, body, { ...o });
  }

  async flush(timeoutMs = FLUSH_TIMEOUT_MS): Promise<Outcome<void>> {
    if (!this.connected) return unknown('disconnected');
    const { generation } = this;
    const answered = await within(timeoutMs, this.nc.flush());
    // A ping that was queued while the connection went is answered by the next one.
    const same = generation === this.generation && this.connected;
    if (answered === 'done' && same) return done(undefined);
    return unknown(answered === 'late' ? 'timeout' : 'disconnected');
  }

  onDenied(listener: (d: Denied) => void): () => void {
    this.#denials.add(listener);
    return () => void this.#denials.delete(listener);
  }

  onEvent(listener: (e: LinkEvent) => void): () => void {
    this.#events.add(listener);
    return () => void this.#events.delete(listener);
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#dial.closing = true;
    if (this.connected) await within(DRAIN_MAX_MS, this.nc.drain());
    this.connected = false;
    const closed = within(CLOSE_MAX_MS, this.nc.close());
    abandonDial(this.nc, 'closed'); // a dial under way would otherwise become a connection
    await closed;
    this.#emit('closed');
    this.#events.clear();
    this.#denials.clear();
  }

  async #followStatus(): Promise<void> {
    for await (const status of this.nc.status()) this.#onStatus(status);
    if (this.#dial.closing) return;
    this.connected = false;
    this.#emit('closed', { detail: 'the client closed itself' });
  }

  #onStatus(status: Status): void {
    // The client repeats both: after a failed dial, and once for each dial that shared a success.
    if (status.type === 'disconnect' && this.connected) {
      this.connected = false;
      this.#disconnectedMs = Date.now();
      this.#emit('disconnected');
    } else if (status.type === 'reconnect' && !this.connected && !this.#dial.closing) {
      this.connected = true;
      this.generation++;
      this.#dial.accepted();
      this.#readServerInfo();
      this.#emit('reconnected');
    } else if (status.type === 'error') {
      this.#onError(status.error);
    }
  }

  #onError(error: Error): void {
    if (error instanceof PermissionViolationError) {
      const { operation, subject, queue } = error;
      const denied: Denied = { operation, subject, ...(queue === undefined ? {} : { queue }) };
      for (const listener of [...this.#denials]) this.#guard(subject, listener, denied);
      this.#emit('permission-denied', denied);
    } else if (
      error instanceof AuthorizationError ||
      error instanceof UserAuthenticationExpiredError
    ) {
      if (this.#dial.refused()) this.#emit('credential-refused', { detail: error.message });
    }
  }

  #readServerInfo(): void {
    const { info } = this.nc;
    this.maxPayload = info?.max_payload ?? this.maxPayload;
    this.serverVersion = info?.version ?? this.serverVersion;
  }

  /** An exception in a callback would end the client's read loop: deaf, and still connected. */
  #guard<T>(where: string, fn: (x: T) => void, x: T): void {
    try {
      fn(x);
    } catch (e) {
      const detail = e instanceof Error ? (e.stack ?? e.message) : String(e);
      this.#emit('handler-failed', { subject: where, detail });
    }
  }

  #emit(kind: LinkEvent['kind'], facts: Omit<LinkEvent, 'kind' | 'generation'> = {}): void {
    const event: LinkEvent = { kind, generation: this.generation, ...facts };
    for (const listener of [...this.#events]) {
      if (kind !== 'handler-failed') this.#guard(kind, listener, event);
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
