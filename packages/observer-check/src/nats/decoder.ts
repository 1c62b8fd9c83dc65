import { type ClaimsData, type Permission, parseCreds, type User } from '@nats-io/jwt';
import { fromSeed } from '@nats-io/nkeys';
import { done, type Outcome, refused } from '@plane3/protocol';
import type { CredentialClaims, Rights } from '../model.ts';
import type { Decoder } from '../ports.ts';

/** Longer files are no credentials. */
const BYTES_MAX = 64 * 1024;
type Decoded = Outcome<CredentialClaims, 'undecodable'>;
const no = (why: string): Decoded => refused('undecodable', why);
const MS_PER_S = 1_000;

/** Credentials files as the official library reads them. */
export const jwtDecoder: Decoder = { decode };

/**
 * Token, signature and seed of a credentials file. The library verifies the signature with the key
 * that the token names as its issuer; what it says about the input is kept out of the answer.
 */
async function decode(bytes: Uint8Array): Promise<Decoded> {
  if (bytes.length === 0) return no('empty');
  if (bytes.length > BYTES_MAX) return no(`longer than ${BYTES_MAX} bytes`);
  let parsed: Awaited<ReturnType<typeof parseCreds>>;
  try {
    parsed = await parseCreds(bytes);
  } catch {
    return no('not a credentials file with a rightly signed token');
  }
  try {
    const seed = fromSeed(new TextEncoder().encode(parsed.key));
    if (seed.getPublicKey() !== parsed.uc.sub) return no('its key is not the one of its token');
  } catch {
    return no('its key is unreadable');
  }
  return claimsOf(parsed.uc);
}

function claimsOf(uc: ClaimsData<User>): Decoded {
  const nats = uc.nats;
  if (nats?.type !== 'user' || !uc.sub.startsWith('U')) return no('not the token of a user');
  const account = nats.issuer_account ?? uc.iss;
  if (!uc.iss.startsWith('A') || !account.startsWith('A'))
    return no('not signed by the key of an account');
  const publish = rightsOf(nats.pub);
  const subscribe = rightsOf(nats.sub);
  const expiresAtMs = msOf(uc.exp);
  const validFromMs = msOf(uc.nbf);
  if (publish === undefined || subscribe === undefined) return no('its permissions are unreadable');
  if (Number.isNaN(expiresAtMs) || Number.isNaN(validFromMs)) return no('its times are unreadable');
  const claims: CredentialClaims = {
    name: String(uc.name),
    userKey: uc.sub,
    issuer: uc.iss,
    account,
    expiresAtMs,
    validFromMs,
    publish,
    subscribe,
  };
  return done(claims);
}

/** Seconds since the epoch in a token, 0 or absent for none; NaN for what is no time. */
function msOf(s: unknown): number | undefined {
  if (s === undefined || s === 0) return undefined;
  return typeof s === 'number' && Number.isSafeInteger(s) ? s * MS_PER_S : Number.NaN;
}

const isTexts = (x: unknown): x is string[] =>
  Array.isArray(x) && x.every((t) => typeof t === 'string');

function rightsOf(p: Partial<Permission> | undefined): Rights | undefined {
  const allow: unknown = p?.allow ?? [];
  const deny: unknown = p?.deny ?? [];
  return isTexts(allow) && isTexts(deny) ? { allow, deny } : undefined;
}
