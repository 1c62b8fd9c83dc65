import {
  anycastSubject,
  bucketStream,
  bucketSubject,
  directDurable,
  directSubject,
  handOverDurable,
  historyDurable,
  isId,
  type Lifecycle,
  lifecycleKey,
  Plane3Error,
  principalId,
  roleDurable,
  type SpaceNames,
} from '@plane3/protocol';
import {
  bucketView,
  commands,
  consume,
  consumerCreate,
  consumerDelete,
  consumerInfo,
  denySub,
  flowControl,
  type GrantLine,
  ownInbox,
  pub,
  streamInfo,
  sub,
} from './lines.ts';
import { endsInStar, enforceable, historyGrantable } from './patterns.ts';

export interface AgentRights {
  readonly lifecycle: Lifecycle;
  readonly allowSubscribe: readonly string[];
  readonly allowPublish: readonly string[];
  readonly role?: string;
  /** For foreign clients that insist on CHAT's info: it lists every channel and sender. */
  readonly agentStreamInfo?: boolean;
}

/** Commands of a member (wire contract section 6). */
export const MEMBER_COMMANDS = [
  'describe',
  'join',
  'leave',
  'list',
  'ack-gaps',
  'attach',
  'detach',
  'health',
  'receipt',
] as const;

/**
 * Any publish right here writes broker-made bodies to any subject of the account (the reply of a
 * publish is not checked), so nothing in this account decides anything.
 */
export function agentLines(names: SpaceNames, rights: AgentRights, userKey: string): GrantLine[] {
  const { lifecycle, role } = rights;
  if (role !== undefined && !isId(role))
    throw new Plane3Error('settings-invalid', { detail: `not a role: ${role}` });
  return [
    ownInbox(userKey),
    ...reading(names, lifecycle, enforceable(rights.allowSubscribe)),
    ...writing(names, lifecycle, enforceable(rights.allowPublish)),
    ...commands(names.prefix, lifecycle, MEMBER_COMMANDS, 'member'),
    ...receiving(names, lifecycle),
    ...(role === undefined ? [] : tasks(names, role)),
    pub(bucketSubject(names.buckets.presence, principalId(lifecycle)), 'its own presence'),
    ...bucketView(names.buckets.presence, 'presence'),
    flowControl(bucketStream(names.buckets.presence), 'presence'),
    ...bucketView(names.buckets.channels, 'the display copy of channel configuration'),
    flowControl(bucketStream(names.buckets.channels), 'the display copy of channel configuration'),
    ...(rights.agentStreamInfo === true
      ? [streamInfo(names.streams.chat, 'setting agentStreamInfo: shows every channel and sender')]
      : []),
  ];
}

function reading(names: SpaceNames, member: Lifecycle, patterns: readonly string[]): GrantLine[] {
  const { prefix: P, streams } = names;
  const history = historyDurable(member);
  const live = patterns.flatMap((c) => [
    sub(`${P}.chat.*.*.${c}`, `reads ${c} live`),
    ...(endsInStar(c)
      ? [denySub(`${P}.chat.*.*.${c}.>`, `${c} ends there: the broker would let > through`)]
      : []),
  ]);
  const past = patterns
    .filter(historyGrantable)
    .map((c) =>
      consumerCreate(streams.chat, history, `${P}.chat.*.*.${c}`, `reads the history of ${c}`),
    );
  if (past.length === 0) return live;
  return [
    ...live,
    ...past,
    consumerInfo(streams.chat, history, 'looks at its own history consumer'),
    consumerDelete(streams.chat, history, 'ends its own history consumer'),
    pub(`$JS.API.CONSUMER.MSG.NEXT.${streams.chat}.${history}`, 'pulls its own history'),
  ];
}

function writing(names: SpaceNames, from: Lifecycle, patterns: readonly string[]): GrantLine[] {
  const { prefix: P } = names;
  const any = { owner: '*', actor: '*' };
  return [
    ...patterns.map((c) => pub(`${P}.chat.${principalId(from)}.${c}`, `posts on ${c} as itself`)),
    pub(directSubject(P, any, from), 'direct messages as itself'),
    pub(anycastSubject(P, '*', from), 'anycast as itself'),
  ];
}

function receiving(names: SpaceNames, member: Lifecycle): GrantLine[] {
  const { prefix: P, streams } = names;
  const dlv = handOverDurable(member);
  const dm = directDurable(member);
  const key = lifecycleKey(member);
  return [
    consumerInfo(streams.dlv, dlv, 'looks at its own hand-over durable'),
    ...consume(streams.dlv, dlv, 'its own hand-overs'),
    consumerInfo(streams.dm, dm, 'looks at its own direct-message durable'),
    ...consume(streams.dm, dm, 'its own direct messages'),
    sub(`${P}.hand.${key}`, 'receives direct hand-overs'),
    pub(`${P}.hand-ack.${key}`, 'confirms direct hand-overs'),
  ];
}

function tasks(names: SpaceNames, role: string): GrantLine[] {
  const durable = roleDurable(role);
  return [
    consumerInfo(names.streams.task, durable, `looks at the durable of role ${role}`),
    ...consume(names.streams.task, durable, `tasks of role ${role}`),
  ];
}
