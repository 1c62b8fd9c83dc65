import {
  bucketStream,
  bucketSubject,
  CHANNEL_DEFAULTS_KEY,
  checkpointSpecKey,
  checkpointStatusKey,
  type Lifecycle,
  type SpaceNames,
} from '@plane3/protocol';
import { streamSpecs } from '../streams.ts';
import {
  bucketRead,
  bucketView,
  commands,
  consume,
  consumerCreate,
  consumerDelete,
  consumerInfo,
  type GrantLine,
  leaderRead,
  ownInbox,
  pub,
  purge,
  streamInfo,
} from './lines.ts';

/** Commands of an operator (wire contract section 6). */
export const OPERATOR_COMMANDS = [
  'describe',
  'health',
  'status',
  'pending',
  'explain',
  'members',
  'dead-letters',
  'dead-letter-retry',
  'dead-letter-drop',
  'release',
  'hold',
  'resume',
  'drain',
  'settled',
] as const;

/** Commands of host profiles: standing credentials and eviction. */
export const HOST_COMMANDS = [
  'describe',
  'health',
  'reload-creds',
  'store-identity',
  'evict-principal',
  'principal-liveness',
] as const;

const streamsOf = (names: SpaceNames, account: 'space' | 'vault'): string[] =>
  streamSpecs(names)
    .filter((s) => s.account === account)
    .map((s) => s.config.name);

const infoOfAll = (names: SpaceNames, account: 'space' | 'vault'): GrantLine[] =>
  streamsOf(names, account).map((s) => streamInfo(s, 'sees whether the space is whole'));

export function operatorLines(names: SpaceNames, who: Lifecycle, userKey: string): GrantLine[] {
  const { streams } = names;
  return [
    ownInbox(userKey),
    ...commands(names.prefix, who, OPERATOR_COMMANDS, 'operator'),
    ...infoOfAll(names, 'space'),
    purge(streams.dlv, 'retracts when rights narrow, also with a dead daemon'),
    leaderRead(streams.timerRequests, 'lists timer requests'),
    leaderRead(streams.timers, 'lists armed timers'),
    ...bucketView(names.buckets.presence, 'presence'),
  ];
}

/** Rights and channel configuration; of the member store it sees counts, never content. */
export function operatorVaultLines(names: SpaceNames, userKey: string): GrantLine[] {
  const { buckets } = names;
  const view = (bucket: string, what: string): GrantLine[] => [
    leaderRead(bucketStream(bucket), `reads ${what} from the leader`),
    ...bucketView(bucket, what),
  ];
  return [
    ownInbox(userKey),
    pub(bucketSubject(buckets.acl, '*.*.*'), 'writes rights'),
    pub(bucketSubject(buckets.channels, '>'), 'writes channel configuration'),
    ...infoOfAll(names, 'vault'),
    ...view(buckets.acl, 'rights'),
    ...view(buckets.channels, 'channel configuration'),
    ...view(buckets.members, 'memberships'),
    ...view(buckets.lease, 'the lease'),
    ...view(buckets.records, 'records'),
    ...view(buckets.state, 'the state of the daemon'),
  ];
}

/** Makes the streams of one account and repairs them; it cannot delete any. */
const makesStreams = (names: SpaceNames, account: 'space' | 'vault'): GrantLine[] =>
  streamsOf(names, account).flatMap((s) => [
    pub(`$JS.API.STREAM.CREATE.${s}`, 'makes it'),
    pub(`$JS.API.STREAM.UPDATE.${s}`, 'repairs it'),
    streamInfo(s, 'reads it back'),
  ]);

export function provisionerLines(names: SpaceNames, userKey: string): GrantLine[] {
  const { prefix: P, streams, buckets } = names;
  return [
    ownInbox(userKey),
    ...makesStreams(names, 'space'),
    pub(bucketSubject(buckets.channels, CHANNEL_DEFAULTS_KEY), 'display copy of the defaults'),
    leaderRead(bucketStream(buckets.channels), 'never overwrites the defaults'),
    consumerCreate(streams.dlv, '*', `${P}.dlv.*.*.*`, 'makes the durable of a member'),
    consumerInfo(streams.dlv, '*', 'reads it back'),
    consumerCreate(streams.dm, '*', `${P}.inst.*.*.*.*`, 'makes the durable of a principal'),
    consumerInfo(streams.dm, '*', 'reads it back'),
    consumerCreate(streams.task, '*', `${P}.svc.*.*.*`, 'makes the durable of a role'),
    consumerInfo(streams.task, '*', 'reads it back'),
  ];
}

export function provisionerVaultLines(names: SpaceNames, userKey: string): GrantLine[] {
  const { channels } = names.buckets;
  return [
    ownInbox(userKey),
    ...makesStreams(names, 'vault'),
    pub(bucketSubject(channels, CHANNEL_DEFAULTS_KEY), 'defaults of a new space'),
    leaderRead(bucketStream(channels), 'never overwrites the defaults'),
  ];
}

export function deprovisionerLines(names: SpaceNames, userKey: string): GrantLine[] {
  const { streams } = names;
  return [
    ownInbox(userKey),
    purge(streams.dlv, 'takes the hand-overs of a retired member away'),
    streamInfo(streams.dlv, 'reads back that they are gone'),
    ...[streams.dlv, streams.dm].flatMap((s) => [
      consumerInfo(s, '*', 'looks before it deletes'),
      consumerDelete(s, '*', 'deletes the durable of a retired member'),
    ]),
    consumerInfo(streams.chat, '*', 'looks before it deletes'),
    consumerDelete(streams.chat, '*', 'ends history reads when rights change'),
  ];
}

/** The one durable in which an instance reads its fires. */
export const fireDurable = (instanceId: string): string => `fire_${instanceId}`;

export function endpointAuthorLines(
  names: SpaceNames,
  endpoint: string,
  instanceId: string,
  userKey: string,
): GrantLine[] {
  const own = `${names.prefix}.ept.${endpoint}.${instanceId}.*.*`;
  const { timers } = names.streams;
  const durable = fireDurable(instanceId);
  return [
    ownInbox(userKey),
    pub(`${own}.schedule`, 'asks for timers of its own instance'),
    // The broker puts a fire into the stream and publishes it to nobody: it takes a consumer.
    consumerCreate(timers, durable, `${own}.fire`, 'makes the durable of its fires'),
    consumerInfo(timers, durable, 'looks at it'),
    consumerDelete(timers, durable, 'ends it'),
    ...consume(timers, durable, 'its own fires'),
  ];
}

export function recordWriterLines(
  names: SpaceNames,
  endpoint: string,
  userKey: string,
): GrantLine[] {
  const { records } = names.buckets;
  return [
    ownInbox(userKey),
    pub(bucketSubject(records, checkpointSpecKey(endpoint, '*')), 'specs of one endpoint'),
    pub(bucketSubject(records, checkpointStatusKey(endpoint, '*')), 'status of one endpoint'),
    leaderRead(bucketStream(records), 'compare-and-set needs the leader'),
  ];
}

export const managerLines = (names: SpaceNames, who: Lifecycle, userKey: string): GrantLine[] => [
  ownInbox(userKey),
  ...commands(names.prefix, who, HOST_COMMANDS, 'host'),
];

/** Key of the manager's own row beside the leases of the daemons: the same expiry serves both. */
export const MANAGER_LEASE_KEY = 'manager.0';

export const managerVaultLines = (names: SpaceNames, userKey: string): GrantLine[] => [
  ownInbox(userKey),
  pub(bucketSubject(names.buckets.lease, MANAGER_LEASE_KEY), 'its own lease'),
  ...bucketRead(names.buckets.lease, 'its own lease'),
];

/** For displays: who is here, what exists, who serves; no content. */
export const observerLines = (names: SpaceNames, userKey: string): GrantLine[] => [
  ownInbox(userKey),
  ...bucketRead(names.buckets.presence, 'presence'),
  ...bucketRead(names.buckets.channels, 'the display copy of channel configuration'),
  ...bucketRead(names.buckets.lease, 'the display copy of the lease'),
  ...bucketRead(names.buckets.membership, 'the membership feed'),
];

export const membershipRwLines = (names: SpaceNames, userKey: string): GrantLine[] => [
  ownInbox(userKey),
  pub(bucketSubject(names.buckets.membership, '*.*'), 'feed row of a principal'),
  pub(bucketSubject(names.buckets.membership, '=feed'), 'age of the feed'),
  ...bucketRead(names.buckets.membership, 'its own feed'),
];
