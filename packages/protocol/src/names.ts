import { spaceToken } from './ids.ts';

/** Streams, buckets and durables of one space (wire contract section 4). S: space account, V: vault. */
export interface SpaceNames {
  readonly space: string;
  /** Sanitized routing token. */
  readonly token: string;
  /** `cotal.<token>`, without a trailing dot. */
  readonly prefix: string;
  readonly streams: {
    readonly chat: string;
    readonly dm: string;
    readonly task: string;
    readonly dlv: string;
    readonly timerRequests: string;
    readonly timers: string;
    readonly contracts: string;
    readonly inbox: string;
    readonly dead: string;
  };
  readonly buckets: {
    readonly presence: string;
    readonly channels: string;
    readonly members: string;
    readonly acl: string;
    readonly lease: string;
    readonly records: string;
    readonly state: string;
    readonly membership: string;
  };
  readonly durables: { readonly fanout: string; readonly timers: string };
}

export function spaceNames(space: string): SpaceNames {
  const s = spaceToken(space);
  return {
    space,
    token: s,
    prefix: `cotal.${s}`,
    streams: {
      chat: `CHAT_${s}`,
      dm: `DM_${s}`,
      task: `TASK_${s}`,
      dlv: `DLV_${s}`,
      timerRequests: `EPT_REQ_${s}`,
      timers: `EPT_${s}`,
      contracts: `EPC_${s}`,
      inbox: `INBOX_${s}`,
      dead: `DEAD_${s}`,
    },
    buckets: {
      presence: `cotal_presence_${s}`,
      channels: `cotal_channels_${s}`,
      members: `cotal_members_${s}`,
      acl: `cotal_acl_${s}`,
      lease: `cotal_delivery_${s}`,
      records: `cotal_records_${s}`,
      state: `cotal_state_${s}`,
      membership: `cotal_membership_${s}`,
    },
    durables: { fanout: 'fanout', timers: `timerw_${s}` },
  };
}

/** The stream behind a bucket. */
export const bucketStream = (bucket: string): string => `KV_${bucket}`;
/** The subject of a key of a bucket. */
export const bucketSubject = (bucket: string, key: string): string => `$KV.${bucket}.${key}`;
