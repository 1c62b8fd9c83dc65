import type { Outcome } from '@plane3/protocol';
import type { CredentialClaims, SecretName } from './model.ts';

/**
 * Where the `$SYS` pair lies: a workstation's folder, or a store that a host injects. The very
 * source that scans use later; its place is fixed when it is made, never by the working directory
 * at the time of a request (I32).
 *
 * Absent (`done` with undefined), unreadable (`refused`) and present are three answers. `unknown`:
 * the store did not answer, so that nobody can say whether there is one; it never counts as absent.
 * Nothing is kept: each read is of what is there at that moment.
 */
export interface SecretSource {
  read(name: SecretName): Promise<Outcome<Uint8Array | undefined, 'unreadable'>>;
  /** The place of a secret, for a person: a path, a key. Never content. */
  where(name: SecretName): string;
}

/**
 * Reads a credentials file: token and key belong together, the token is a user's, signed by an
 * account's key, and the signature is right. Whether the broker trusts that account is not in it:
 * only the broker knows. Never throws; the reason holds no part of the input.
 */
export interface Decoder {
  decode(bytes: Uint8Array): Promise<Outcome<CredentialClaims, 'undecodable'>>;
}

export interface Timers {
  /** Runs `f` once after `ms`; answers how to take it back. */
  after(ms: number, f: () => void): () => void;
}

/** One connection of the account, as one broker lists it (wire contract section 7). */
export interface ListedConnection {
  readonly cid: number;
  readonly userKey: string;
  /** The principal and lifecycle, from the tags of the user's signed token. */
  readonly tags: readonly string[];
}

export interface ListingPage {
  readonly serverId: string;
  /** Of the whole listing at the time of this page: another value on the next page means change. */
  readonly total: number;
  readonly offset: number;
  readonly connections: readonly ListedConnection[];
}

export type ListingRefusal =
  | 'permission-denied'
  /** The answer is none, or lacks what a verdict would rest on: it poisons the whole sweep. */
  | 'malformed';

/**
 * Asks every broker that answers within the time for one page of the account's connections. An
 * empty list is an answer of nobody: `unknown`, never "no connections". How many brokers there are
 * is not in it; a verdict of `gone` needs that from elsewhere.
 */
export interface ConnectionListing {
  page(offset: number, limit: number): Promise<Outcome<readonly ListingPage[], ListingRefusal>>;
}
