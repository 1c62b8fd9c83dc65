import { patternContains, patternsOverlap } from '@plane3/protocol';
import type { CredentialClaims, Rights } from './model.ts';

export const allows = (r: Rights, subject: string): boolean =>
  (r.allow.length === 0 || r.allow.some((p) => patternContains(p, subject))) &&
  !r.deny.some((p) => patternsOverlap(p, subject));

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
    if (!patternsOverlap(pattern, any)) continue;
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
