import type { NatsConnection } from '@nats-io/nats-core';

/**
 * The one place that reaches into the client, whose version is pinned exactly. Its public
 * interface cannot say "give up this dial, stay in the reconnect loop": an authenticator that
 * throws closes the connection for good, and a `close()` during a dial lets that dial go on to a
 * connection that nobody owns. Both are shown by tests, so that a new client version is noticed.
 */
interface Internals {
  readonly protocol?: {
    readonly transport?: { discard(): void };
    readonly connectError?: ((e: Error) => void) | undefined;
  };
}

/**
 * Ends the dial in progress without sending another byte. The client goes on as after any failed
 * dial: with the next server, after its reconnect delay.
 */
export function abandonDial(nc: NatsConnection, why: string): void {
  const { protocol } = nc as unknown as Internals;
  protocol?.transport?.discard();
  protocol?.connectError?.(new Error(why));
}
