import { linkSync, readdirSync, unlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { decode, encodeAccount, encodeOperator, type Account as JwtAccount } from '@nats-io/jwt';
import { createAccount, createOperator, fromSeed, type KeyPair } from '@nats-io/nkeys';
import { Plane3Error } from '@plane3/protocol';
import { z } from 'zod';
import {
  ensureSecretFolder,
  isErrno,
  isOpenToOthers,
  readFileIfPresent,
  writeSecretFile,
} from './files.ts';
import { type SpacePaths, spacePaths } from './layout.ts';

/** `space`: agents live there. `vault`: what decides; no agent ever. `system`: the broker's own. */
export type Account = 'space' | 'vault' | 'system';
export const ACCOUNTS: readonly Account[] = ['space', 'vault', 'system'];

/** JetStream limits of an account; -1 or absent is unlimited. */
export interface AccountQuota {
  readonly diskBytesMax?: number;
  readonly memoryBytesMax?: number;
  readonly connectionsMax?: number;
}

const accountKeysSchema = z.strictObject({
  publicKey: z.string(),
  /** Users are signed by this one only; the account's own seed is thrown away at creation. */
  signingSeed: z.string(),
});

const trustFileSchema = z.strictObject({
  v: z.literal(1),
  space: z.string(),
  created: z.number(),
  operator: z.strictObject({ jwt: z.string(), seed: z.string(), signingSeed: z.string() }),
  accounts: z.strictObject({
    space: accountKeysSchema,
    vault: accountKeysSchema,
    system: accountKeysSchema,
  }),
  quota: z.strictObject({
    diskBytesMax: z.number().optional(),
    memoryBytesMax: z.number().optional(),
    connectionsMax: z.number().optional(),
  }),
});
type TrustFile = z.infer<typeof trustFileSchema>;

const revocationSchema = z.strictObject({
  account: z.enum(['space', 'vault', 'system']),
  /** Seconds since the epoch: tokens of this key issued until then are refused. */
  revokedAtS: z.number().int(),
  /** After it the token is refused by its own expiry and the entry is dropped. */
  expiresAtS: z.number().int(),
});
type Revocation = z.infer<typeof revocationSchema>;

/**
 * `unfinished`: a creation was cut off before its one atomic step. Nothing was ever issued from
 * it, so `create` simply finishes the work.
 */
export type TrustState = 'absent' | 'unfinished' | 'ready' | 'damaged';

/**
 * The trust chains of the spaces of one root. A chain is one file of mode 0600 that appears whole
 * or not at all, so there is no order of writes that a crash could tear.
 */
export class TrustStore {
  readonly #root: string;

  constructor(root: string) {
    this.#root = root;
  }

  state(space: string): TrustState {
    const paths = spacePaths(this.#root, space);
    if (readFileIfPresent(paths.trustFile) === undefined)
      return leftovers(paths).length > 0 ? 'unfinished' : 'absent';
    try {
      this.open(space);
      return 'ready';
    } catch {
      return 'damaged';
    }
  }

  /**
   * Makes the chain, or opens the one that is there: two creations at once end with the same one.
   * @throws Plane3Error `credential-unreadable` if a damaged one stands in the way
   */
  async create(space: string, quota: AccountQuota = {}): Promise<Trust> {
    const paths = spacePaths(this.#root, space);
    if (readFileIfPresent(paths.trustFile) !== undefined) return this.open(space);
    ensureSecretFolder(paths.authFolder);
    const draft = `${paths.trustFile}.${process.pid}.${Date.now()}.draft`;
    writeFileSync(draft, JSON.stringify(await newTrustFile(space, quota)), {
      mode: 0o600,
      flag: 'wx',
      flush: true,
    });
    try {
      linkSync(draft, paths.trustFile);
    } catch (e) {
      if (!isErrno(e, 'EEXIST')) throw e;
    }
    for (const leftover of leftovers(paths)) unlinkSync(leftover);
    return this.open(space);
  }

  /**
   * @throws Plane3Error `space-unknown` if there is none; `credential-unreadable` if it is damaged,
   * of another space, or open to other users of this machine
   */
  open(space: string): Trust {
    const paths = spacePaths(this.#root, space);
    const text = readFileIfPresent(paths.trustFile);
    if (text === undefined)
      throw new Plane3Error('space-unknown', { context: { space, path: paths.trustFile } });
    if (isOpenToOthers(paths.trustFile))
      throw unreadable(paths, 'others may read it', `chmod 600 ${paths.trustFile}`);
    return new Trust(paths, checkedTrustFile(paths, space, text));
  }
}

/** Drafts that a creation cut off has left. */
function leftovers(paths: SpacePaths): string[] {
  const folder = dirname(paths.trustFile);
  const prefix = `${paths.trustFile}.`;
  try {
    return readdirSync(folder)
      .map((name) => join(folder, name))
      .filter((path) => path.startsWith(prefix) && path.endsWith('.draft'));
  } catch (e) {
    if (isErrno(e, 'ENOENT')) return [];
    throw e;
  }
}

const unreadable = (paths: SpacePaths, detail: string, help?: string): Plane3Error =>
  new Plane3Error('credential-unreadable', {
    detail: `${paths.trustFile}: ${detail}`,
    context: { path: paths.trustFile },
    help: help ?? 'restore the file from a backup; without it the space cannot issue anything',
  });

function checkedTrustFile(paths: SpacePaths, space: string, text: string): TrustFile {
  let file: TrustFile;
  try {
    file = trustFileSchema.parse(JSON.parse(text));
  } catch {
    // The parser's message may quote the content, and the content is secret.
    throw unreadable(paths, 'it is not a whole trust file');
  }
  if (file.space !== space) throw unreadable(paths, 'it belongs to another space');
  try {
    const claim = decode<{ signing_keys?: string[]; system_account?: string }>(file.operator.jwt);
    const signer = publicOf(file.operator.signingSeed);
    const whole =
      claim.sub === publicOf(file.operator.seed) &&
      claim.iss === claim.sub &&
      claim.nats.signing_keys?.includes(signer) === true &&
      claim.nats.system_account === file.accounts.system.publicKey;
    if (whole) return file;
  } catch {
    // Falls through to the one answer.
  }
  throw unreadable(paths, 'its keys and its operator token do not belong together');
}

const encoder = new TextEncoder();
const keyOf = (seed: string): KeyPair => fromSeed(encoder.encode(seed));
const publicOf = (seed: string): string => keyOf(seed).getPublicKey();
const seedOf = (key: KeyPair): string => new TextDecoder().decode(key.getSeed());

async function newTrustFile(space: string, quota: AccountQuota): Promise<TrustFile> {
  const operator = createOperator();
  const operatorSigner = createOperator();
  const account = (): z.infer<typeof accountKeysSchema> => ({
    publicKey: createAccount().getPublicKey(),
    signingSeed: seedOf(createAccount()),
  });
  const accounts = { space: account(), vault: account(), system: account() };
  // Strict: what the operator's or an account's own key signs is refused by the broker.
  const claims = {
    signing_keys: [operatorSigner.getPublicKey()],
    system_account: accounts.system.publicKey,
    strict_signing_key_usage: true,
  };
  return {
    v: 1,
    space,
    created: Date.now(),
    operator: {
      jwt: await encodeOperator(`cotal ${space}`, operator, claims),
      seed: seedOf(operator),
      signingSeed: seedOf(operatorSigner),
    },
    accounts,
    quota: { ...quota },
  };
}

/** The opened chain of one space. Holds secrets: it belongs into no log and no daemon. */
export class Trust {
  readonly space: string;
  readonly operatorJwt: string;
  readonly #paths: SpacePaths;
  readonly #file: TrustFile;
  readonly #signers = new Map<Account, KeyPair>();

  constructor(paths: SpacePaths, file: TrustFile) {
    this.space = file.space;
    this.operatorJwt = file.operator.jwt;
    this.#paths = paths;
    this.#file = file;
  }

  accountKey(account: Account): string {
    return this.#file.accounts[account].publicKey;
  }

  /** What signs the users of an account. */
  signer(account: Account): KeyPair {
    const known = this.#signers.get(account);
    if (known !== undefined) return known;
    const signer = keyOf(this.#file.accounts[account].signingSeed);
    this.#signers.set(account, signer);
    return signer;
  }

  /**
   * The account's token as of now, with every revocation that still matters. Nothing is exported
   * or imported, and a user without permissions of its own gets none.
   */
  accountJwt(account: Account): Promise<string> {
    const { publicKey } = this.#file.accounts[account];
    const claims: Partial<JwtAccount> = {
      signing_keys: [this.signer(account).getPublicKey()],
      limits: accountLimits(account, this.#file.quota),
      default_permissions: { pub: { deny: ['>'] }, sub: { deny: ['>'] } },
      revocations: this.revocations(account),
    };
    const signer = keyOf(this.#file.operator.signingSeed);
    return encodeAccount(`${account} ${this.space}`, publicKey, claims, { signer } as never);
  }

  /**
   * Records that tokens of `userKey` issued until now are refused. Repeating it is harmless. The
   * broker learns it when the account's token is pushed to it. One file per key, so that two
   * revocations at once cannot undo each other.
   */
  revoke(account: Account, userKey: string, expiresAtMs: number): void {
    if (!/^U[A-Z2-7]{55}$/.test(userKey))
      throw new Plane3Error('defect', { detail: 'not a user key', context: { userKey } });
    const entry: Revocation = {
      account,
      revokedAtS: Math.floor(Date.now() / 1000),
      expiresAtS: Math.ceil(expiresAtMs / 1000),
    };
    ensureSecretFolder(this.#paths.revokedFolder);
    writeSecretFile(join(this.#paths.revokedFolder, userKey), JSON.stringify(entry));
  }

  /** User key to seconds since the epoch. Entries whose token is expired are dropped on the way. */
  revocations(account: Account): Record<string, number> {
    const out: Record<string, number> = {};
    for (const name of this.#revokedNames()) {
      const path = join(this.#paths.revokedFolder, name);
      const entry = readRevocation(path);
      if (entry === undefined) continue;
      if (entry.expiresAtS < Date.now() / 1000) unlinkIfPresent(path);
      else if (entry.account === account) out[name] = entry.revokedAtS;
    }
    return out;
  }

  #revokedNames(): string[] {
    try {
      return readdirSync(this.#paths.revokedFolder).filter((n) => /^U[A-Z2-7]{55}$/.test(n));
    } catch (e) {
      if (isErrno(e, 'ENOENT')) return [];
      throw e;
    }
  }
}

function readRevocation(path: string): Revocation | undefined {
  const text = readFileIfPresent(path);
  if (text === undefined) return undefined; // pruned meanwhile
  try {
    return revocationSchema.parse(JSON.parse(text));
  } catch (cause) {
    // Ignoring it would let a revoked credential in again.
    throw new Plane3Error('credential-unreadable', { detail: path, context: { path }, cause });
  }
}

function unlinkIfPresent(path: string): void {
  try {
    unlinkSync(path);
  } catch (e) {
    if (!isErrno(e, 'ENOENT')) throw e;
  }
}

function accountLimits(
  account: Account,
  quota: TrustFile['quota'],
): NonNullable<JwtAccount['limits']> {
  const connections = { conn: quota.connectionsMax ?? -1, leaf: 0, disallow_bearer: true };
  const isolated = { imports: 0, exports: 0, wildcards: false };
  const messages = { subs: -1, data: -1, payload: -1 };
  if (account === 'system') return { ...messages, ...isolated, ...connections };
  return {
    ...messages,
    ...isolated,
    ...connections,
    mem_storage: quota.memoryBytesMax ?? -1,
    disk_storage: quota.diskBytesMax ?? -1,
    streams: -1,
    consumer: -1,
  };
}
