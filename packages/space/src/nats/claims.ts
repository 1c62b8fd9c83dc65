import { type ApiRefusal, type Link, translate } from '@plane3/link';
import { done, type Outcome, refused, unknown } from '@plane3/protocol';
import type { Account, Trust } from '../trust.ts';

const PUSH_TIMEOUT_MS = 5_000;
/** Another revocation may come while one is pushed; beyond this somebody revokes in a loop. */
const PUSH_ROUNDS_MAX = 10;

/**
 * Makes the account's token of now known to the broker, which ends the connections of every
 * revoked user at once and refuses them from then on. Repeated while other revocations were
 * recorded meanwhile, so that of two pushes at once the last one names them all.
 */
export async function pushAccount(
  systemLink: Link,
  trust: Trust,
  account: Account,
): Promise<Outcome<void, ApiRefusal>> {
  for (let round = 0; round < PUSH_ROUNDS_MAX; round++) {
    const before = Object.keys(trust.revocations(account)).length;
    const pushed = await pushOnce(systemLink, await trust.accountJwt(account));
    if (pushed.kind !== 'done') return pushed;
    const after = Object.keys(trust.revocations(account)).length;
    if (after === before) return pushed;
  }
  return unknown('revocations kept coming while the account was pushed');
}

async function pushOnce(systemLink: Link, jwt: string): Promise<Outcome<void, ApiRefusal>> {
  if (!systemLink.connected) return unknown('disconnected');
  try {
    const answer = await systemLink.nc.request('$SYS.REQ.CLAIMS.UPDATE', jwt, {
      timeout: PUSH_TIMEOUT_MS,
    });
    const text = answer.string();
    const parsed = JSON.parse(text) as {
      data?: { code?: number };
      error?: { description?: string };
    };
    if (parsed.data?.code === 200) return done(undefined);
    return refused('rejected', parsed.error?.description ?? text);
  } catch (e) {
    return translate(e);
  }
}
