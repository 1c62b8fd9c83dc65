import { decode, parseCreds } from '@nats-io/jwt';
import { type Auth, type Authenticator, credsAuthenticator } from '@nats-io/nats-core';
import { Plane3Error } from '@plane3/protocol';

/** A credential that ends within this time counts as expired: it must not expire on the wire. */
const EXPIRY_MARGIN_MS = 500;

/** Bytes of a credentials file, read anew at every connect. Throws when there is none. */
export type CredentialSource = () => Uint8Array;

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
export function readCredential(source: CredentialSource): Credential {
  const bytes = bytesOf(source);
  const authenticator = credsAuthenticator(bytes);
  const { userKey, expiresMs } = claimsOf(authenticator);
  if (expiresMs - EXPIRY_MARGIN_MS <= Date.now())
    throw new Plane3Error('credential-expired', {
      detail: `since ${new Date(expiresMs).toISOString()}`,
      context: { userKey },
    });
  return { userKey, expiresMs, authenticate: (nonce) => authenticator(nonce) };
}

function bytesOf(source: CredentialSource): Uint8Array {
  let bytes: Uint8Array;
  try {
    bytes = source();
  } catch (cause) {
    throw cause instanceof Plane3Error
      ? cause
      : new Plane3Error('credential-unreadable', { cause });
  }
  if (bytes.length === 0) throw new Plane3Error('credential-unreadable', { detail: 'empty' });
  return bytes;
}

function claimsOf(authenticator: Authenticator): Pick<Credential, 'userKey' | 'expiresMs'> {
  try {
    const { jwt } = authenticator() as { jwt: string };
    const claims = decode(jwt);
    return {
      userKey: claims.sub,
      expiresMs: claims.exp === undefined || claims.exp === 0 ? Infinity : claims.exp * 1000,
    };
  } catch (cause) {
    throw new Plane3Error('credential-unreadable', { detail: 'not a credentials file', cause });
  }
}

export interface CredentialFacts {
  readonly userKey: string;
  /** The user's account, whichever key of it signed. */
  readonly account: string;
  readonly name: string;
  /** Wall clock; `undefined` where the token has no end. */
  readonly expiresAtMs: number | undefined;
  readonly tags: readonly string[];
}

/** What a credentials file says about itself; throws on anything that is none. Expired ones too. */
export async function credentialFacts(bytes: Uint8Array): Promise<CredentialFacts> {
  const { uc } = await parseCreds(bytes);
  return {
    userKey: uc.sub,
    account: uc.nats.issuer_account ?? uc.iss,
    name: uc.name,
    expiresAtMs: uc.exp === undefined ? undefined : uc.exp * 1_000,
    tags: uc.nats.tags ?? [],
  };
}
