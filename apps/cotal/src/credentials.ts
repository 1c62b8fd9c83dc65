import { readFileSync } from 'node:fs';
import { credentialFacts } from '@plane3/link';
import type { Lifecycle, SpaceNames } from '@plane3/protocol';
import type { SpacePaths } from '@plane3/space';
import {
  ensureSecretFolder,
  mint,
  PROFILES,
  type StandingCredential,
  type Trust,
  type UserKey,
  writeSecretFile,
} from '@plane3/space';
import { identityOf } from './context.ts';

/** Credentials that stand in files and are renewed by the manager. */
export const STANDING: readonly StandingCredential[] = [
  'delivery',
  'delivery-vault',
  'membership-observer',
  'connection-evictor',
  'membership-rw',
  'operator',
  'operator-vault',
  'manager',
  'manager-vault',
];

/** Renewed once this share of the lifetime is over: several failures fit before the expiry. */
const RENEW_AFTER_SHARE = 0.75;

export interface CredentialState {
  readonly name: StandingCredential;
  readonly state: 'fresh' | 'due' | 'expired' | 'missing' | 'unreadable';
  readonly expiresAtMs: number | undefined;
}

export async function credentialState(
  paths: SpacePaths,
  name: StandingCredential,
  nowMs: number,
): Promise<CredentialState> {
  let bytes: Uint8Array;
  try {
    bytes = readFileSync(paths.credential(name));
  } catch {
    return { name, state: 'missing', expiresAtMs: undefined };
  }
  try {
    const { expiresAtMs } = await credentialFacts(bytes);
    if (expiresAtMs === undefined) return { name, state: 'fresh', expiresAtMs };
    if (expiresAtMs <= nowMs) return { name, state: 'expired', expiresAtMs };
    const leftMs = expiresAtMs - nowMs;
    const due = leftMs < PROFILES[name].lifetimeMs * (1 - RENEW_AFTER_SHARE);
    return { name, state: due ? 'due' : 'fresh', expiresAtMs };
  } catch {
    return { name, state: 'unreadable', expiresAtMs: undefined };
  }
}

/** Signs anew what is not fresh, for the same key and lifecycle where there is one. Answers the names. */
export async function renewStanding(o: {
  readonly trust: Trust;
  readonly names: SpaceNames;
  readonly paths: SpacePaths;
  readonly nowMs: number;
}): Promise<StandingCredential[]> {
  ensureSecretFolder(o.paths.credentialsFolder);
  const renewed: StandingCredential[] = [];
  for (const name of STANDING) {
    const { state } = await credentialState(o.paths, name, o.nowMs);
    if (state === 'fresh') continue;
    const before = await previous(o.paths.credential(name));
    const minted = await mint({
      trust: o.trust,
      names: o.names,
      profile: name,
      args: {},
      ...(before === undefined ? {} : before),
    });
    writeSecretFile(o.paths.credential(name), minted.creds);
    renewed.push(name);
  }
  return renewed;
}

/** Key and lifecycle of the file as it stands; what cannot be read is replaced whole. */
async function previous(
  file: string,
): Promise<{ readonly lifecycle: Lifecycle; readonly userKey: UserKey } | undefined> {
  try {
    const { lifecycle, credentials } = await identityOf(file);
    const bytes = credentials();
    const { userKey } = await credentialFacts(bytes);
    const seed = /-----BEGIN USER NKEY SEED-----\s*(\S+)/.exec(
      new TextDecoder().decode(bytes),
    )?.[1];
    return seed === undefined ? undefined : { lifecycle, userKey: { publicKey: userKey, seed } };
  } catch {
    return undefined;
  }
}
