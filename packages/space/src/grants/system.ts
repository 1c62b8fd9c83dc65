import { type GrantLine, ownInbox, pub, sub } from './lines.ts';

/** Profiles of the broker's system account. Each does one thing and reads nothing else. */

export const membershipObserverLines = (account: string, userKey: string): GrantLine[] => [
  ownInbox(userKey),
  pub(`$SYS.REQ.ACCOUNT.${account}.CONNZ`, 'lists the connections of this one account'),
  sub(`$SYS.ACCOUNT.${account}.CONNECT`, 'sees who comes'),
  sub(`$SYS.ACCOUNT.${account}.DISCONNECT`, 'sees who goes'),
];

export const connectionEvictorLines = (userKey: string): GrantLine[] => [
  ownInbox(userKey),
  pub('$SYS.REQ.SERVER.*.KICK', 'ends a connection'),
];

/** The broker checks the operator's signature on what is pushed; the right alone forges nothing. */
export const claimsPusherLines = (userKey: string): GrantLine[] => [
  ownInbox(userKey),
  pub('$SYS.REQ.CLAIMS.UPDATE', 'makes a revocation known'),
];
