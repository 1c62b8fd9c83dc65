import { bucketStream, bucketSubject, type Lifecycle, lifecycleKey } from '@plane3/protocol';

/** One right: what may be published or subscribed, and what it is for. */
export interface GrantLine {
  readonly direction: 'pub' | 'sub';
  /** `deny` only takes back a part of an `allow` of the same profile. */
  readonly effect: 'allow' | 'deny';
  readonly subject: string;
  /** A subscription in this queue group only. */
  readonly queue?: string;
  readonly reason: string;
}

export const pub = (subject: string, reason: string): GrantLine => ({
  direction: 'pub',
  effect: 'allow',
  subject,
  reason,
});

export const sub = (subject: string, reason: string, queue?: string): GrantLine => ({
  direction: 'sub',
  effect: 'allow',
  subject,
  reason,
  ...(queue === undefined ? {} : { queue }),
});

export const denySub = (subject: string, reason: string): GrantLine => ({
  direction: 'sub',
  effect: 'deny',
  subject,
  reason,
});

const api = (verb: string, reason: string): GrantLine => pub(`$JS.API.${verb}`, reason);

export const streamInfo = (stream: string, reason: string): GrantLine =>
  api(`STREAM.INFO.${stream}`, reason);
/** A read answered by the leader: last of a subject, or one sequence. */
export const leaderRead = (stream: string, reason: string): GrantLine =>
  api(`STREAM.MSG.GET.${stream}`, reason);
export const directRead = (stream: string, reason: string): GrantLine =>
  api(`DIRECT.GET.${stream}`, reason);
export const deleteBySequence = (stream: string, reason: string): GrantLine =>
  api(`STREAM.MSG.DELETE.${stream}`, reason);
/** The filter is in the body: the broker cannot narrow a purge to one subject. */
export const purge = (stream: string, reason: string): GrantLine =>
  api(`STREAM.PURGE.${stream}`, reason);

/**
 * A token of a subject is whole or `*`, so a consumer's name is either exact or any; the filter is
 * compared by the broker with the one in the body.
 */
export const consumerCreate = (
  stream: string,
  name: string,
  filter: string,
  reason: string,
): GrantLine => api(`CONSUMER.CREATE.${stream}.${name}.${filter}`, reason);
export const consumerInfo = (stream: string, name: string, reason: string): GrantLine =>
  api(`CONSUMER.INFO.${stream}.${name}`, reason);
export const consumerDelete = (stream: string, name: string, reason: string): GrantLine =>
  api(`CONSUMER.DELETE.${stream}.${name}`, reason);

/** Pull and acknowledge on one consumer. */
export const consume = (stream: string, name: string, what: string): GrantLine[] => [
  api(`CONSUMER.MSG.NEXT.${stream}.${name}`, `pulls ${what}`),
  pub(`$JS.ACK.${stream}.${name}.>`, `acknowledges ${what}`),
];

/**
 * What a view of a bucket needs: a consumer of a random name on exactly this bucket, and its end.
 * The random name is what keeps others from ending it.
 */
export function bucketView(bucket: string, what: string): GrantLine[] {
  const stream = bucketStream(bucket);
  return [
    consumerCreate(stream, '*', bucketSubject(bucket, '>'), `follows ${what}`),
    consumerInfo(stream, '*', `looks after its follower of ${what}`),
    consumerDelete(stream, '*', `ends its follower of ${what}`),
  ];
}

/** Everything a reader of a bucket needs that must know how old its view is. */
export const bucketRead = (bucket: string, what: string): GrantLine[] => [
  streamInfo(bucketStream(bucket), `proves that its view of ${what} is current`),
  leaderRead(bucketStream(bucket), `reads ${what} from the leader`),
  ...bucketView(bucket, what),
];

export const ownInbox = (userKey: string): GrantLine =>
  sub(`_INBOX_${userKey}.>`, 'answers to its own requests');

/** Commands of the delivery endpoint with the caller's triple pinned, and their replies. */
export function commands(
  prefix: string,
  caller: Lifecycle,
  names: readonly string[],
  who: string,
): GrantLine[] {
  const triple = lifecycleKey(caller);
  return [
    ...names.flatMap((c) => [
      pub(`${prefix}.ep.one.delivery.${c}.${triple}.*`, `${who} command ${c}`),
      pub(`${prefix}.ep.inst.delivery.*.${c}.${triple}.*`, `${who} command ${c}, at one instance`),
    ]),
    sub(`${prefix}.ep.reply.*.*.*.${triple}.*`, 'replies to its own requests'),
  ];
}

/** A pushed consumer with flow control stalls for good when nobody answers the broker. */
export const flowControl = (stream: string, what: string): GrantLine =>
  pub(`$JS.FC.${stream}.>`, `answers flow control of ${what}`);
