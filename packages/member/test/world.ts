import { randomUUID } from 'node:crypto';
import type { DeliveryHandlers, JoinArgs, LeaveArgs } from '@plane3/endpoint';
import { type EndpointServer, serve } from '@plane3/endpoint/nats';
import { JetStreamApi, type Link, openLink, type Publisher } from '@plane3/link';
import { type Member, type MemberOptions, openMember } from '@plane3/member';
import {
  chatSubject,
  encodeFrame,
  HEADER,
  handOverDurable,
  handOverSubject,
  type Lifecycle,
  principalId,
  spaceNames,
} from '@plane3/protocol';
import type { NatsProc } from '@plane3/testkit';

export const NAMES = spaceNames('main');
export const ALICE: Lifecycle = { owner: 'local', actor: 'alice', uid: 'a1'.repeat(13) };
const BOB: Lifecycle = { owner: 'local', actor: 'bob', uid: 'b2'.repeat(13) };
const { prefix, streams } = NAMES;

export const openTestLink = (broker: NatsProc, name: string): Promise<Link> =>
  openLink({ name, servers: [broker.url], transport: { kind: 'plain' } });

async function ask(link: Link, operation: string, body: unknown): Promise<void> {
  const m = await link.nc.request(`$JS.API.${operation}`, JSON.stringify(body));
  const answer = m.json<{ error?: { description: string } }>();
  if (answer.error !== undefined) throw new Error(`${operation}: ${answer.error.description}`);
}

/** The streams and the durable that a member meets, as the provisioner makes them. */
export async function provision(link: Link, ackWaitMs = 60_000): Promise<void> {
  const stream = (name: string, subjects: string[], more: object = {}) =>
    ask(link, `STREAM.CREATE.${name}`, { name, subjects, storage: 'file', ...more });
  await stream(streams.chat, [`${prefix}.chat.>`]);
  await stream(streams.dlv, [`${prefix}.dlv.>`]);
  await stream(`KV_${NAMES.buckets.presence}`, [`$KV.${NAMES.buckets.presence}.>`], {
    max_msgs_per_subject: 1,
  });
  for (const m of [ALICE, BOB]) await makeDurable(link, m, ackWaitMs);
}

export const makeDurable = (link: Link, m: Lifecycle, ackWaitMs = 60_000): Promise<void> =>
  ask(link, `CONSUMER.DURABLE.CREATE.${streams.dlv}.${handOverDurable(m)}`, {
    stream_name: streams.dlv,
    config: {
      durable_name: handOverDurable(m),
      ack_policy: 'explicit',
      ack_wait: ackWaitMs * 1_000_000,
      filter_subject: handOverSubject(prefix, m),
    },
  });

/** What a real daemon would answer, without what lies behind it. */
export interface Daemon {
  readonly server: EndpointServer;
  readonly joins: JoinArgs[];
  readonly leaves: LeaveArgs[];
  attaches: number;
}

export async function startDaemon(
  link: Link,
  over: { readonly frontier?: number; readonly handlers?: DeliveryHandlers } = {},
): Promise<Daemon> {
  const joins: JoinArgs[] = [];
  const leaves: LeaveArgs[] = [];
  let attaches = 0;
  const frontier = over.frontier ?? 40;
  const commands: DeliveryHandlers = {
    join: (_, args) => {
      joins.push(args);
      const joinCursor = args.joinCursor ?? frontier;
      return Promise.resolve({
        ok: true,
        data: { durable: true, generation: 3, joinCursor, cursorSource: 'client' },
      });
    },
    leave: (_, args) => {
      leaves.push(args);
      const { channel } = args;
      return Promise.resolve({ ok: true, data: { channel, leaveCursor: frontier, disposed: 2 } });
    },
    list: () =>
      Promise.resolve({
        ok: true,
        data: {
          memberships: [],
          gaps: [],
          channels: [
            { channel: 'team', class: 'durable', frontier },
            { channel: 'talk', class: 'live', frontier },
          ],
        },
      }),
    attach: (_, args) => {
      attaches++;
      return Promise.resolve({
        ok: true,
        data: { mode: args.mode, window: args.window, renewMs: 2_000, handedOver: 0 },
      });
    },
    detach: (_, args) => Promise.resolve({ ok: true, data: { mode: args.mode } }),
    health: () =>
      Promise.resolve({
        ok: true,
        data: { state: 'serving', incarnation: 'i', since: 1, observedAt: 2 },
      }),
    ...over.handlers,
  };
  const served = await serve({
    link,
    prefix,
    endpoint: 'delivery',
    instanceId: 'i3'.repeat(13),
    epoch: '1',
    commands,
  });
  if (served.kind !== 'done') throw new Error('not served');
  return {
    server: served.value,
    joins,
    leaves,
    get attaches() {
      return attaches;
    },
  };
}

export interface PostLike {
  readonly channel?: string;
  readonly text?: string;
  readonly id?: string;
  readonly from?: Lifecycle;
}

export function messageOf(p: PostLike): Record<string, unknown> {
  const from = p.from ?? BOB;
  return {
    id: p.id ?? randomUUID(),
    ts: 1,
    space: 'main',
    from: { id: principalId(from), name: from.actor },
    channel: p.channel ?? 'team',
    parts: [{ kind: 'text', text: p.text ?? 'hello' }],
  };
}
const bytes = (x: unknown): Uint8Array => new TextEncoder().encode(JSON.stringify(x));

/** Hands a copy to alice as the daemon does. */
export async function handOver(
  publisher: Publisher,
  message: Record<string, unknown>,
  o: { readonly seq?: number; readonly headers?: readonly (readonly [string, string])[] } = {},
): Promise<void> {
  const body = encodeFrame(message['channel'] as string, bytes(message));
  const stored = await publisher.publish(handOverSubject(prefix, ALICE), body, [
    [HEADER.frame, '1'],
    ...(o.seq === undefined ? [] : ([[HEADER.seq, String(o.seq)]] as const)),
    ...(o.headers ?? []),
  ]);
  if (stored.kind !== 'done') throw new Error('not stored');
}

/** Stores a post as any sender does; gives its sequence. */
export async function postAs(
  publisher: Publisher,
  message: Record<string, unknown>,
  from: Lifecycle = BOB,
): Promise<number> {
  const subject = chatSubject(prefix, from, message['channel'] as string);
  const id = message['id'] as string;
  const headers = id === '' ? undefined : ([[HEADER.msgId, id]] as const);
  const stored = await publisher.publish(subject, bytes(message), headers);
  if (stored.kind !== 'done') throw new Error('not stored');
  return stored.value.seq;
}

export const openAlice = (link: Link, over: Partial<MemberOptions> = {}): Promise<Member> =>
  openMember({ space: 'main', lifecycle: ALICE, link, random: () => 0, presence: false, ...over });

/** Copies handed over and not acknowledged, and those not handed over yet. */
export async function outstanding(link: Link): Promise<{ unacked: number; waiting: number }> {
  const info = await new JetStreamApi(link).consumerInfo(streams.dlv, handOverDurable(ALICE));
  if (info.kind !== 'done') throw new Error('no durable');
  return { unacked: info.value.num_ack_pending, waiting: info.value.num_pending };
}
