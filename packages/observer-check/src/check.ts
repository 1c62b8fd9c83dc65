import { ERRORS } from '@plane3/protocol';
import type { Admission, CredentialClaims, Found, ObserverCode, Question } from './model.ts';
import { allows, hearsAnswers, KICK_SUBJECT, listingOf, listingSubject } from './rights.ts';

type Refusal = Extract<Admission, { ok: false }>;

const refuse = (code: ObserverCode, detail: string, help: string = ERRORS[code].help): Refusal => ({
  ok: false,
  code,
  detail,
  help,
});

const time = (ms: number): string => new Date(ms).toISOString();
const OBSERVER = 'membership-observer';
const EVICTOR = 'connection-evictor';

/** What speaks against the observer by itself; undefined: nothing. */
export function checkObserverAlone(found: Found, q: Question): Refusal | undefined {
  const { read, where } = found;
  switch (read.kind) {
    case 'absent':
      return refuse('observer-missing', `no ${OBSERVER} in ${where}`);
    case 'unreadable':
    case 'undecodable':
      return refuse('observer-unreadable', `${OBSERVER} in ${where}: ${read.why}`);
    case 'credential':
      return checkRights(read.claims, where, q) ?? checkTimes(OBSERVER, read.claims, where, q);
  }
}

function checkRights(claims: CredentialClaims, where: string, q: Question): Refusal | undefined {
  const wanted = listingSubject(q.daemonAccount);
  const who = `${OBSERVER} ${claims.name} (${claims.userKey}) in ${where}`;
  const listing = listingOf(claims);
  if (listing.kind === 'unscoped')
    return refuse(
      'observer-lacks-right',
      `${who} may publish ${listing.pattern}, needed is exactly ${wanted}`,
    );
  if (listing.kind === 'none')
    return refuse('observer-lacks-right', `${who} may not publish ${wanted}`);
  const [account] = listing.accounts;
  if (listing.accounts.length !== 1 || account !== q.daemonAccount)
    return refuse(
      'observer-foreign',
      `${who} lists account ${listing.accounts.join(' and ')}, the daemon is of ${q.daemonAccount}`,
    );
  return hearsAnswers(claims)
    ? undefined
    : refuse('observer-lacks-right', `${who} may not subscribe _INBOX_${claims.userKey}.>`);
}

function checkTimes(
  what: string,
  claims: CredentialClaims,
  where: string,
  q: Question,
): Refusal | undefined {
  const who = `${what} ${claims.name} (${claims.userKey}) in ${where}`;
  const { expiresAtMs, validFromMs } = claims;
  if (expiresAtMs !== undefined && expiresAtMs <= q.nowMs)
    return refuse(
      'observer-expired',
      `${who} expired at ${time(expiresAtMs)}, it is ${time(q.nowMs)}`,
    );
  if (validFromMs !== undefined && validFromMs > q.nowMs)
    return refuse(
      'observer-expired',
      `${who} is valid from ${time(validFromMs)}, it is ${time(q.nowMs)}`,
    );
  return undefined;
}

/** What speaks against the pair: an evictor that is there must be of the observer's own making. */
function checkEvictor(
  found: Found,
  observer: CredentialClaims,
  observerWhere: string,
  q: Question,
): Refusal | undefined {
  const { read, where } = found;
  if (read.kind === 'absent') return undefined;
  if (read.kind === 'unreadable')
    return refuse('observer-unreadable', `${EVICTOR} in ${where}: ${read.why}`);
  if (read.kind === 'undecodable')
    return refuse('observer-torn', `${EVICTOR} in ${where} is none: ${read.why}`);
  const { claims } = read;
  if (claims.issuer !== observer.issuer || claims.account !== observer.account)
    return refuse(
      'observer-torn',
      `${EVICTOR} in ${where} is signed by ${claims.issuer} for ${claims.account}, ` +
        `${OBSERVER} in ${observerWhere} by ${observer.issuer} for ${observer.account}`,
    );
  if (!hasKick(claims))
    return refuse(
      'observer-lacks-right',
      `${EVICTOR} ${claims.name} (${claims.userKey}) in ${where} may not publish ${KICK_SUBJECT}`,
    );
  return checkTimes(EVICTOR, claims, where, q);
}

const hasKick = (claims: CredentialClaims): boolean =>
  claims.publish.allow.length > 0 && allows(claims.publish, KICK_SUBJECT);

/**
 * Whether a daemon may start with this pair (I32). Pure: the same bytes and time give the same
 * answer. The observer is judged first, so that the evictor never hides what is wrong with it.
 */
export function check(observer: Found, evictor: Found, q: Question): Admission {
  const alone = checkObserverAlone(observer, q);
  if (alone !== undefined) return alone;
  if (observer.read.kind !== 'credential')
    return refuse('observer-unreadable', `${OBSERVER} in ${observer.where}`);
  const { claims } = observer.read;
  const torn = checkEvictor(evictor, claims, observer.where, q);
  if (torn !== undefined) return torn;
  const present = evictor.read.kind === 'credential';
  return {
    ok: true,
    evictor: present ? 'present' : 'absent',
    posture: present ? 'can-evict' : 'deny-new-only',
    observer: {
      account: q.daemonAccount,
      userKey: claims.userKey,
      expiresAtMs: claims.expiresAtMs,
      where: observer.where,
    },
  };
}
