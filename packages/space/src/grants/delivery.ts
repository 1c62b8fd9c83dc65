import { bucketStream, bucketSubject, type SpaceNames } from '@plane3/protocol';
import {
  bucketRead,
  consume,
  consumerCreate,
  consumerDelete,
  consumerInfo,
  deleteBySequence,
  directRead,
  flowControl,
  type GrantLine,
  leaderRead,
  ownInbox,
  pub,
  purge,
  streamInfo,
  sub,
} from './lines.ts';

/** The daemon in the space account: reads posts, hands over, answers requests, arms timers. */
export function deliveryLines(names: SpaceNames, userKey: string): GrantLine[] {
  return [
    ownInbox(userKey),
    ...posts(names),
    ...handOver(names),
    ...endpoint(names),
    ...timers(names),
    ...bucketRead(names.buckets.presence, 'presence'),
    ...display(names),
  ];
}

function posts({ prefix: P, streams, durables }: SpaceNames): GrantLine[] {
  const { chat } = streams;
  return [
    streamInfo(chat, 'frontier and incarnation of the posts'),
    leaderRead(chat, 'reads one post again'),
    pub(`$JS.API.CONSUMER.CREATE.${chat}.${durables.fanout}`, 'makes fanout, which has no filter'),
    consumerCreate(chat, durables.fanout, `${P}.chat.>`, 'makes fanout with its filter'),
    ...consume(chat, durables.fanout, 'every post'),
    // The name of a catch-up consumer is random, and a token of a subject is whole or `*`.
    consumerCreate(chat, '*', `${P}.chat.*.*.>`, 'makes a catch-up consumer for one join'),
    consumerInfo(chat, '*', 'looks at fanout and catch-up consumers'),
    consumerDelete(chat, '*', 'ends a catch-up consumer, resets fanout to its cursor'),
    pub(`$JS.API.CONSUMER.MSG.NEXT.${chat}.*`, 'pulls from a catch-up consumer'),
  ];
}

function handOver({ prefix: P, streams }: SpaceNames): GrantLine[] {
  const { dlv } = streams;
  return [
    pub(`${P}.dlv.*.*.*`, 'hands copies over'),
    pub(`${P}.dlv._fence.*`, 'fence of the hand-over stream'),
    streamInfo(dlv, 'reads back that a retraction is complete'),
    leaderRead(dlv, 'reads the fence and stored copies'),
    deleteBySequence(dlv, 'takes confirmed copies away'),
    purge(dlv, 'retracts the copies of a member'),
    consumerCreate(dlv, '*', `${P}.dlv.*.*.*`, 'repairs the durable of one member'),
    consumerInfo(dlv, '*', 'looks at the durables of members'),
    flowControl(dlv, 'the copies that it follows'),
    sub(`$JS.ACK.${dlv}.>`, 'confirmations'),
    sub(`$JS.API.CONSUMER.MSG.NEXT.${dlv}.*`, 'sees that a member pulls'),
    sub(`$JS.EVENT.METRIC.CONSUMER.ACK.${dlv}.*`, 'confirmations, where sampled'),
    sub(`$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.${dlv}.*`, 'refusals of members'),
    pub(`${P}.hand.*.*.*`, 'direct hand-over'),
    sub(`${P}.hand-ack.*.*.*`, 'confirmations of direct hand-overs'),
  ];
}

function endpoint({ prefix: P, streams }: SpaceNames): GrantLine[] {
  return [
    sub(`${P}.ep.one.delivery.>`, 'requests on the class rail', 'delivery'),
    sub(`${P}.ep.inst.delivery.>`, 'requests on the instance rail'),
    pub(`${P}.ep.reply.delivery.*.*.*.*.*.*`, 'replies'),
    pub(`${P}.epc.*`, 'publishes contract artifacts'),
    streamInfo(streams.contracts, 'checks the contract stream'),
    leaderRead(streams.contracts, 'reads an artifact back'),
  ];
}

function timers({ prefix: P, streams, durables }: SpaceNames): GrantLine[] {
  const { timerRequests, timers: armed } = streams;
  const request = `${P}.ept.*.*.*.*.schedule`;
  return [
    streamInfo(timerRequests, 'checks the request stream'),
    leaderRead(timerRequests, 'reads one request again'),
    pub(`$JS.API.CONSUMER.CREATE.${timerRequests}.${durables.timers}`, 'makes its durable'),
    consumerCreate(timerRequests, durables.timers, request, 'makes its durable with its filter'),
    consumerInfo(timerRequests, durables.timers, 'looks at its durable'),
    ...consume(timerRequests, durables.timers, 'timer requests'),
    streamInfo(armed, 'checks that schedules are allowed'),
    leaderRead(armed, 'reads what is armed'),
    pub(`${P}.ept.*.*.*.*.armed`, 'arms'),
    sub(`${P}.ept.*.*.*.*.armed`, 'sees what was planted on an armed subject'),
    purge(armed, 'takes an armed timer away'),
  ];
}

function display({ buckets }: SpaceNames): GrantLine[] {
  const copy = (bucket: string, key: string, what: string): GrantLine[] => [
    pub(bucketSubject(bucket, key), `writes the display copy of ${what}`),
    streamInfo(bucketStream(bucket), `checks the display copy of ${what}`),
    leaderRead(bucketStream(bucket), `compares the display copy of ${what}`),
  ];
  return [
    ...copy(buckets.channels, '>', 'channel configuration'),
    ...copy(buckets.lease, 'lease.*', 'the lease'),
  ];
}

/** The daemon in the vault: the member store, memberships, lease and what it decides by. */
export function deliveryVaultLines(names: SpaceNames, userKey: string): GrantLine[] {
  const { prefix: P, streams, buckets } = names;
  const owned = (bucket: string, key: string, what: string): GrantLine[] => [
    pub(bucketSubject(bucket, key), `writes ${what}`),
    ...bucketRead(bucket, what),
  ];
  return [
    ownInbox(userKey),
    pub(`${P}.dinbox.*.*.*`, 'stores copies'),
    pub(`${P}.dinbox._fence.*`, 'fence of the member store'),
    pub(`${P}.dinbox._cursor.*`, 'cursor of the fan-out'),
    ...store(streams.inbox, 'the member store'),
    purge(streams.inbox, 'disposes of a member'),
    pub(`${P}.dead.*.*.*`, 'dead letters'),
    pub(`${P}.dead._post`, 'quarantined posts'),
    ...store(streams.dead, 'dead letters'),
    ...owned(buckets.members, '>', 'memberships'),
    ...owned(buckets.lease, 'lease.*', 'the lease'),
    ...owned(buckets.state, '>', 'its own state'),
    pub(bucketSubject(buckets.records, 'svc.delivery.*.*'), 'record of this endpoint'),
    ...bucketRead(buckets.records, 'checkpoint and endpoint records'),
    ...bucketRead(buckets.acl, 'rights'),
    ...bucketRead(buckets.channels, 'channel configuration'),
  ];
}

const store = (stream: string, what: string): GrantLine[] => [
  streamInfo(stream, `counts ${what}`),
  leaderRead(stream, `reads ${what}`),
  directRead(stream, `reads ${what} in batches`),
  deleteBySequence(stream, `takes entries out of ${what}`),
];
