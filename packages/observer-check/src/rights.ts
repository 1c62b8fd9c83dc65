import type { CredentialClaims, Rights } from './model.ts';

/** Whether a pattern covers a concrete subject or a narrower pattern, as the broker matches. */
function covers(pattern: string, subject: string): boolean {
  const want = pattern.split('.');
  const have = subject.split('.');
  for (let i = 0; i < want.length; i++) {
    if (want[i] === '>') return have.length > i;
    if (have[i] === undefined || have[i] === '>') return false;
    if (want[i] !== '*' && want[i] !== have[i]) return false;
  }
  return want.length === have.length;
}

/** Whether two patterns have a subject in common. */
function overlaps(a: string, b: string): boolean {
  const left = a.split('.');
  const right = b.split('.');
  for (let i = 0; ; i++) {
    const l = left[i];
    const r = right[i];
    if (l === undefined || r === undefined) return l === r;
    if (l === '>' || r === '>') return true;
    if (l !== '*' && r !== '*' && l !== r) return false;
  }
}

export const allows = (r: Rights, subject: string): boolean =>
  (r.allow.length === 0 || r.allow.some((p) => covers(p, subject))) &&
  !r.deny.some((p) => overlaps(p, subject));

/** What the listing of one account's connections is asked on (wire contract section 7). */
export const listingSubject = (account: string): string => `$SYS.REQ.ACCOUNT.${account}.CONNZ`;
/** What a kick is asked on; the broker's id is the fourth token. */
export const KICK_SUBJECT = '$SYS.REQ.SERVER.*.KICK';

export type Listing =
  | { readonly kind: 'none' }
  /** A right that is not of one account: nobody can tell from it whose observer this is. */
  | { readonly kind: 'unscoped'; readonly pattern: string }
  | { readonly kind: 'accounts'; readonly accounts: readonly string[] };

/** Whose connections this credential may list, by its own permissions. */
export function listingOf(claims: CredentialClaims): Listing {
  const { allow } = claims.publish;
  if (allow.length === 0) return { kind: 'unscoped', pattern: 'everything' };
  const any = listingSubject('*');
  const accounts = new Set<string>();
  for (const pattern of allow) {
    if (!overlaps(pattern, any)) continue;
    const account = pattern.split('.')[3] ?? '';
    if (pattern !== listingSubject(account) || account === '*')
      return { kind: 'unscoped', pattern };
    if (allows(claims.publish, pattern)) accounts.add(account);
  }
  return accounts.size === 0 ? { kind: 'none' } : { kind: 'accounts', accounts: [...accounts] };
}

/** Whether it can hear the answers to its own requests. */
export const hearsAnswers = (claims: CredentialClaims): boolean =>
  allows(claims.subscribe, `_INBOX_${claims.userKey}.>`);
