import { randomBytes } from 'node:crypto';
import { encodeUser, fmtCreds, parseCreds } from '@nats-io/jwt';
import { createUser, fromSeed, type KeyPair } from '@nats-io/nkeys';
import {
  isActor,
  isOwner,
  isUid,
  type Lifecycle,
  Plane3Error,
  principalId,
  type SpaceNames,
} from '@plane3/protocol';
import {
  grantLines,
  PROFILES,
  type ProfileArguments,
  type ProfileName,
  permissionLists,
} from './grants.ts';
import { CONTROL_LINE_BYTES_MAX } from './server-config.ts';
import type { Account, Trust } from './trust.ts';

/** The token travels in one CONNECT line, beside a signature and the client's own facts. */
export const TOKEN_BYTES_MAX = CONTROL_LINE_BYTES_MAX - 4_096;

const UID_CHARACTERS = 'abcdefghijklmnopqrstuvwxyz0123456789';
const UID_LENGTH = 26;

/** 26 characters of `a-z0-9`, 134 random bits (wire contract section 1). */
export function newUid(): string {
  let uid = '';
  while (uid.length < UID_LENGTH)
    // 252 is a multiple of 36: above it characters would not be equally likely.
    for (const byte of randomBytes(UID_LENGTH))
      if (byte < 252 && uid.length < UID_LENGTH) uid += UID_CHARACTERS[byte % 36];
  return uid;
}

/** The key of a user before it is minted, so that its public part can be recorded first. */
export interface UserKey {
  readonly publicKey: string;
  readonly seed: string;
}

export function newUserKey(): UserKey {
  const key = createUser();
  return { publicKey: key.getPublicKey(), seed: new TextDecoder().decode(key.getSeed()) };
}

/**
 * The key of an existing credential: a renewal keeps it, because a running client takes over a new
 * credential of its own user only.
 * @throws Plane3Error `credential-unreadable`
 */
export async function userKeyOf(creds: string): Promise<UserKey> {
  try {
    const { key, uc } = await parseCreds(new TextEncoder().encode(creds));
    return { publicKey: uc.sub, seed: key };
  } catch {
    // The parser's message may quote the content, and the content is secret.
    throw new Plane3Error('credential-unreadable', {
      detail: 'not the text of a credentials file',
    });
  }
}

export interface MintRequest<P extends ProfileName> {
  readonly trust: Trust;
  readonly names: SpaceNames;
  readonly profile: P;
  readonly args: ProfileArguments[P];
  /** Default: the local principal named like the profile, in a new lifecycle. */
  readonly lifecycle?: Lifecycle;
  /** Default: the profile's. Tests and short demos shrink it. */
  readonly lifetimeMs?: number;
  readonly userKey?: UserKey;
}

export interface Minted {
  readonly profile: ProfileName;
  readonly account: Account;
  readonly lifecycle: Lifecycle;
  /** Public. */
  readonly userKey: string;
  /** Milliseconds since the epoch, whole seconds. */
  readonly expiresAtMs: number;
  /** Text of a credentials file: secret. */
  readonly creds: string;
}

/** `delivery-vault` acts as `local.delivery_vault`. */
export const profileLifecycle = (profile: ProfileName): Lifecycle => ({
  owner: 'local',
  actor: profile.replaceAll('-', '_'),
  uid: newUid(),
});

/**
 * Signs a credential. About 35 ms of pure JavaScript: off every hot path.
 * @throws Plane3Error `settings-invalid` for rights that the broker cannot enforce or that do not
 * fit into one token
 */
export async function mint<P extends ProfileName>(r: MintRequest<P>): Promise<Minted> {
  const profile = PROFILES[r.profile];
  const lifecycle = r.lifecycle ?? profileLifecycle(r.profile);
  if (!isOwner(lifecycle.owner) || !isActor(lifecycle.actor) || !isUid(lifecycle.uid))
    throw new Plane3Error('settings-invalid', {
      detail: 'not a lifecycle',
      context: { ...lifecycle },
    });
  const user = r.userKey === undefined ? createUser() : keyPair(r.userKey);
  const userKey = user.getPublicKey();
  const context = {
    names: r.names,
    lifecycle,
    userKey,
    spaceAccountKey: r.trust.accountKey('space'),
  };
  const expiresAtS = Math.floor((Date.now() + (r.lifetimeMs ?? profile.lifetimeMs)) / 1000);
  const jwt = await encodeUser(
    `${r.profile} ${principalId(lifecycle)}`,
    user,
    r.trust.accountKey(profile.account),
    {
      ...permissionLists(grantLines(r.profile, context, r.args)),
      tags: tagsOf(lifecycle),
      bearer_token: false,
      allowed_connection_types: ['STANDARD'],
    },
    { signer: r.trust.signer(profile.account), exp: expiresAtS },
  );
  if (jwt.length > TOKEN_BYTES_MAX)
    throw new Plane3Error('settings-invalid', {
      detail: `the token has ${jwt.length} of at most ${TOKEN_BYTES_MAX} bytes: use patterns`,
      context: { bytes: jwt.length, principal: principalId(lifecycle) },
    });
  return {
    profile: r.profile,
    account: profile.account,
    lifecycle,
    userKey,
    expiresAtMs: expiresAtS * 1000,
    creds: new TextDecoder().decode(fmtCreds(jwt, user)),
  };
}

const keyPair = (key: UserKey): KeyPair => fromSeed(new TextEncoder().encode(key.seed));

const tagsOf = (l: Lifecycle): string[] => [
  `owner:${l.owner}`,
  `actor:${l.actor}`,
  `principal:${principalId(l)}`,
  `uid:${l.uid}`,
];
