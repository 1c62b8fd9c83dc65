import { encodeAccount, encodeOperator, encodeUser, fmtCreds, type User } from '@nats-io/jwt';
import { createAccount, createOperator, createUser, type KeyPair } from '@nats-io/nkeys';
import { KICK_SUBJECT, listingSubject } from '@plane3/observer-check';

/** An account with a signing key, as the trust chain of a space makes it. */
export interface TestAccount {
  readonly root: KeyPair;
  readonly signer: KeyPair;
  readonly key: string;
}

export function newAccount(): TestAccount {
  const root = createAccount();
  return { root, signer: createAccount(), key: root.getPublicKey() };
}

export interface CredsOptions {
  readonly name?: string;
  readonly expiresAtMs?: number;
  readonly validFromMs?: number;
  readonly signer?: KeyPair;
  readonly publish?: readonly string[];
  readonly publishDeny?: readonly string[];
  readonly subscribe?: readonly string[];
}

/** Credentials of a new user of `account`; by default it may hear its own answers only. */
export async function creds(account: TestAccount, o: CredsOptions = {}): Promise<Uint8Array> {
  const user = createUser();
  const inbox = `_INBOX_${user.getPublicKey()}.>`;
  const rights: Partial<User> = {
    pub: { allow: [...(o.publish ?? [])], deny: [...(o.publishDeny ?? [])] },
    sub: { allow: [...(o.subscribe ?? [inbox])], deny: [] },
  };
  const jwt = await encodeUser(o.name ?? 'user', user, account.root, rights, {
    signer: o.signer ?? account.signer,
    ...(o.expiresAtMs === undefined ? {} : { exp: Math.floor(o.expiresAtMs / 1_000) }),
    ...(o.validFromMs === undefined ? {} : { nbf: Math.floor(o.validFromMs / 1_000) }),
  });
  return fmtCreds(jwt, user);
}

export const observerCreds = (
  system: TestAccount,
  account: string,
  o: CredsOptions = {},
): Promise<Uint8Array> =>
  creds(system, { name: 'membership-observer', publish: [listingSubject(account)], ...o });

export const evictorCreds = (system: TestAccount, o: CredsOptions = {}): Promise<Uint8Array> =>
  creds(system, { name: 'connection-evictor', publish: [KICK_SUBJECT], ...o });

/** What an account has none of unless it is told otherwise. */
const UNLIMITED = { conn: -1, leaf: -1, subs: -1, data: -1, payload: -1 };

/** Configuration of a broker in operator mode that knows these accounts. */
export async function operatorConfig(
  system: TestAccount,
  accounts: readonly TestAccount[],
): Promise<string> {
  const operator = createOperator();
  const operatorJwt = await encodeOperator('test', operator, { system_account: system.key });
  const preload: string[] = [];
  for (const a of [system, ...accounts]) {
    const claims = { signing_keys: [a.signer.getPublicKey()], limits: UNLIMITED };
    const jwt = await encodeAccount('account', a.root, claims, { signer: operator });
    preload.push(`${a.key}: "${jwt}"`);
  }
  return `
    operator: "${operatorJwt}"
    system_account: ${system.key}
    resolver: MEMORY
    resolver_preload: {\n${preload.join('\n')}\n}`;
}
