import {
  createAccount,
  createOperator,
  createUser,
  encodeAccount,
  encodeOperator,
  encodeUser,
  fmtCreds,
  fromSeed,
} from '@nats-io/jwt';
import { type NatsProc, startNats } from '@plane3/testkit';

interface Grant {
  readonly pub?: readonly string[];
  readonly sub?: readonly string[];
  /** Seconds from now on; tokens know whole seconds only. */
  readonly expiresInS?: number;
  /** Seed of an existing user key: a renewal. */
  readonly seed?: Uint8Array;
  /** Signed by a key that the broker does not know. */
  readonly foreign?: boolean;
}

interface Minted {
  readonly creds: Uint8Array;
  readonly seed: Uint8Array;
  readonly userKey: string;
  readonly token: string;
}

export interface Mesh {
  readonly nats: NatsProc;
  mint(grant?: Grant): Promise<Minted>;
}

const EVERYTHING = ['>'];

/** A broker in operator mode with one JetStream account, and credentials for it. */
export async function startMesh(o: { readonly extra?: string } = {}): Promise<Mesh> {
  const operator = createOperator();
  const system = createAccount();
  const account = createAccount();
  const unlimited = { mem_storage: -1, disk_storage: -1, streams: -1, consumer: -1 };
  const tokens = {
    operator: await encodeOperator('test', operator, { system_account: system.getPublicKey() }),
    system: await encodeAccount('SYS', system, {}, { signer: operator }),
    account: await encodeAccount(
      'A',
      account,
      {
        limits: {
          ...unlimited,
          conn: -1,
          subs: -1,
          data: -1,
          payload: -1,
          leaf: -1,
          imports: -1,
          exports: -1,
          wildcards: true,
        },
      },
      { signer: operator },
    ),
  };
  const nats = await startNats({
    config: `
      operator: ${tokens.operator}
      system_account: ${system.getPublicKey()}
      resolver: MEMORY
      resolver_preload: {
        ${system.getPublicKey()}: ${tokens.system}
        ${account.getPublicKey()}: ${tokens.account}
      }
      ${o.extra ?? ''}`,
  });
  const mint = async (grant: Grant = {}): Promise<Minted> => {
    const user = grant.seed === undefined ? createUser() : fromSeed(grant.seed);
    const { pub = EVERYTHING, sub = EVERYTHING, expiresInS } = grant;
    const signer = grant.foreign === true ? createAccount() : account;
    const token = await encodeUser(
      'u',
      user,
      signer,
      { pub: { allow: [...pub], deny: [] }, sub: { allow: [...sub], deny: [] } },
      expiresInS === undefined ? {} : { exp: Math.floor(Date.now() / 1000) + expiresInS },
    );
    const seed = user.getSeed();
    return { creds: fmtCreds(token, user), seed, userKey: user.getPublicKey(), token };
  };
  return { nats, mint };
}
