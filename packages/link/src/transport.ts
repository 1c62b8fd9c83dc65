import type { TlsOptions } from '@nats-io/nats-core';

/**
 * How a connection is protected. Decided once, from the mesh record, and passed to every launch.
 *
 * `tls` demands TLS on every dial, also on reconnects and on servers that the broker names later:
 * a listener that greets in clear is left before a credential byte was sent. There is no value
 * that means "TLS if the other side happens to offer it".
 */
export type Transport =
  | { readonly kind: 'plain' }
  | {
      readonly kind: 'tls';
      /** PEM file; without it the system's authorities count. */
      readonly caFile?: string;
      /** The listener expects TLS before its greeting. */
      readonly handshakeFirst?: boolean;
      /** The name in the certificate, where it is not the host that is dialled. */
      readonly serverName?: string;
    };

/** The client's option. `null` there means "in clear even where TLS is offered". */
export function tlsOptions(transport: Transport): TlsOptions | null {
  if (transport.kind === 'plain') return null;
  const { caFile, handshakeFirst, serverName } = transport;
  return {
    ...(caFile === undefined ? {} : { caFile }),
    ...(handshakeFirst === true ? { handshakeFirst } : {}),
    // Not in the client's type; it hands its options on to node:tls, which knows it.
    ...(serverName === undefined ? {} : { servername: serverName }),
  };
}
