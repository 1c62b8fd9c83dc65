import type { Link } from '@plane3/link';
import { done, type Outcome, refused, unknown } from '@plane3/protocol';
import type { Account, Trust } from '../trust.ts';

const UPDATE_SUBJECT = '$SYS.REQ.CLAIMS.UPDATE';
const PUSH_TIMEOUT_MS = 5_000;
/** Another revocation may come while one is pushed; beyond this somebody revokes in a loop. */
const PUSH_ROUNDS_MAX = 10;

export type PushRefusal = 'permission-denied' | 'rejected';

/**
 * Makes the account's token of now known to the broker, which ends the connections of every
 * revoked user at once and refuses them from then on. Repeated while other revocations were
 * recorded meanwhile, so that of two pushes at once the last one names them all.
 */
export async function pushAccount(
  systemLink: Link,
  trust: Trust,
  account: Account,
): Promise<Outcome<void, PushRefusal>> {
  for (let round = 0; round < PUSH_ROUNDS_MAX; round++) {
    const before = fingerprint(trust, account);
    const pushed = await pushOnce(systemLink, await trust.accountJwt(account));
    if (pushed.kind !== 'done') return pushed;
    if (fingerprint(trust, account) === before) return pushed;
  }
  return unknown('revocations kept coming while the account was pushed');
}

const fingerprint = (trust: Trust, account: Account): string =>
  JSON.stringify(Object.entries(trust.revocations(account)).sort());

async function pushOnce(systemLink: Link, jwt: string): Promise<Outcome<void, PushRefusal>> {
  if (!systemLink.connected) return unknown('disconnected');
  let denied = false;
  const stop = systemLink.onDenied((d) => {
    denied ||= d.operation === 'publish' && d.subject === UPDATE_SUBJECT;
  });
  try {
    const answer = await systemLink.nc.request(UPDATE_SUBJECT, jwt, { timeout: PUSH_TIMEOUT_MS });
    return judge(answer.string());
  } catch (e) {
    if (denied) return refused('permission-denied', UPDATE_SUBJECT);
    return unknown(e instanceof Error ? e.message : String(e));
  } finally {
    stop();
  }
}

function judge(text: string): Outcome<void, PushRefusal> {
  const parsed = JSON.parse(text) as {
    data?: { code?: number };
    error?: { description?: string };
  };
  if (parsed.data?.code === 200) return done(undefined);
  return refused('rejected', parsed.error?.description ?? text);
}
