import { decode } from '@nats-io/jwt';
import { type Auth, credsAuthenticator } from '@nats-io/nats-core';
import { Plane3Error } from '@plane3/protocol';

/** A credential that ends within this time counts as expired: it must not expire on the wire. */
export const EXPIRY_MARGIN_MS = 500;

export interface Credential {
  /** Public key of the user; keys the reply inbox (wire contract section 1). */
  readonly userKey: string;
  /** Wall clock; `Infinity` where the token has no end. */
  readonly expiresMs: number;
  /** Signs the broker's challenge. */
  authenticate(nonce: string | undefined): Auth;
}

/**
 * Reads a credential from its source. Throws what the source throws, `credential-unreadable` for
 * bytes that are none (an empty file too), `credential-expired` for one that is over.
 */
export function readCredential(source: () => Uint8Array): Credential {
  const bytes = source();
  if (bytes.length === 0) throw new Plane3Error('credential-unreadable', { detail: 'empty' });
  const authenticator = credsAuthenticator(bytes);
  const { userKey, expiresMs } = claimsOf(authenticator());
  if (expiresMs - EXPIRY_MARGIN_MS <= Date.now())
    throw new Plane3Error('credential-expired', {
      detail: `since ${new Date(expiresMs).toISOString()}`,
      context: { userKey },
    });
  return { userKey, expiresMs, authenticate: (nonce) => authenticator(nonce) };
}

function claimsOf(auth: Auth): Pick<Credential, 'userKey' | 'expiresMs'> {
  try {
    const token = (auth as { jwt: string }).jwt;
    const claims = decode(token);
    return {
      userKey: claims.sub,
      expiresMs: claims.exp === undefined || claims.exp === 0 ? Infinity : claims.exp * 1000,
    };
  } catch (cause) {
    throw new Plane3Error('credential-unreadable', { detail: 'not a signed token', cause });
  }
}
