import { randomUUID } from 'node:crypto';
import type { LeaveData, ListData } from '@plane3/endpoint';
import { Caller, type CallResult, Inbox, watchConnection } from '@plane3/endpoint/nats';
import { type Link, type LinkOptions, openLink, Publisher } from '@plane3/link';
import {
  done,
  isChannel,
  type Lifecycle,
  type Outcome,
  Plane3Error,
  type Presence,
  refused,
  type SpaceNames,
  spaceNames,
  unknown,
} from '@plane3/protocol';
import { ChannelJoin, LIST_DEADLINE_MS } from './channel-join.ts';
import { judgeLive } from './copies.ts';
import type { JoinReport } from './join-machine.ts';
import { Mailbox } from './mailbox.ts';
import type {
  Counts,
  Health,
  LeaveReport,
  PostOptions,
  Receipt,
  Received,
  ReceiveOptions,
} from './model.ts';
import { type PostRefusal, postTo } from './post.ts';
import { PresenceBeat } from './presence.ts';
import { Receiver, rawOf } from './receiver.ts';

/** What `list` said is taken for the class of a channel this long. */
const LIST_FRESH_MS = 5_000;
/** A failed `list` is not asked again at once by every post. */
const LIST_FAILED_FRESH_MS = 1_000;
/** A daemon that has not answered within this is not well. */
const HEALTH_DEADLINE_MS = 1_000;
/** At close the daemon is told, but not waited for longer. */
const DETACH_DEADLINE_MS = 500;

export interface MemberOptions {
  readonly space: string;
  /** The lifecycle of the credential: `uid` is in its tags. */
  readonly lifecycle: Lifecycle;
  /** Default: the actor. */
  readonly name?: string;
  readonly role?: string;
  /** The host's connection, which stays open, or how to open one, which goes with the member. */
  readonly link: Link | LinkOptions;
  /** Whether to be seen as present, which attaches it; who only posts says no. Default yes. */
  readonly presence?: boolean;
  /** 0 up to 1; default `Math.random`. */
  readonly random?: () => number;
}

export interface MemberState {
  readonly connected: boolean;
  readonly channels: readonly JoinReport[];
  /** What waits in this process: pulled and not taken, live and not taken. */
  readonly waiting: { readonly durable: number; readonly live: number };
  readonly counts: Readonly<Counts>;
}

export type LeaveRefusal = 'not-serving' | 'not-found' | 'permission-denied' | 'rejected';

const isLink = (x: Link | LinkOptions): x is Link => 'nc' in x;

/**
 * The client of one lifecycle: joins, leaves, posts, receives, confirms, and says honestly what
 * holds (wire contract sections 3, 5 and 6).
 */
export class Member {
  readonly #names: SpaceNames;
  readonly #o: MemberOptions;
  readonly #link: Link;
  readonly #ownsLink: boolean;
  readonly #caller: Caller;
  readonly #inbox: Inbox;
  readonly #publisher: Publisher;
  readonly #mailbox = new Mailbox();
  readonly #receiver: Receiver;
  readonly #channels = new Map<string, ChannelJoin>();
  readonly #beat: PresenceBeat;
  readonly #offs: (() => void)[];
  #listed: { readonly answer: CallResult<ListData>; readonly atMs: number } | undefined;
  #listing: Promise<CallResult<ListData>> | undefined;
  #lostAtMs: number | undefined;
  #closed = false;

  private constructor(o: MemberOptions, link: Link, caller: Caller, inbox: Inbox) {
    this.#o = o;
    this.#names = spaceNames(o.space);
    this.#link = link;
    this.#ownsLink = !isLink(o.link);
    this.#caller = caller;
    this.#inbox = inbox;
    this.#publisher = new Publisher(link);
    const { prefix, streams, buckets } = this.#names;
    this.#receiver = new Receiver({
      link,
      prefix,
      stream: streams.dlv,
      member: o.lifecycle,
      caller,
      inbox,
      mailbox: this.#mailbox,
    });
    this.#beat = new PresenceBeat({
      publisher: this.#publisher,
      bucket: buckets.presence,
      member: o.lifecycle,
      name: o.name ?? o.lifecycle.actor,
      role: o.role,
      onFailure: () => this.#mailbox.counts.presenceFailed++,
      nowMs: Date.now,
    });
    this.#offs = [
      watchConnection(link, { lost: () => this.#lost(), restored: () => this.#restored() }),
    ];
  }

  /** Throws what `openLink` throws, or `permission-denied` without the own reply rail. */
  static async open(o: MemberOptions): Promise<Member> {
    const link = isLink(o.link) ? o.link : await openLink(o.link);
    const { prefix } = spaceNames(o.space);
    const caller = await Caller.open({
      link,
      prefix,
      caller: o.lifecycle,
      ...(o.name === undefined ? {} : { name: o.name }),
      ...(o.role === undefined ? {} : { role: o.role }),
    });
    const inbox = caller.kind === 'done' ? await Inbox.open(link) : caller;
    if (caller.kind !== 'done' || inbox.kind !== 'done') {
      if (!isLink(o.link)) await link.close();
      const failed = caller.kind === 'done' ? inbox : caller;
      if (failed.kind === 'refused')
        throw new Plane3Error('permission-denied', { detail: failed.detail });
      throw new Plane3Error('broker-unreachable');
    }
    const member = new Member(o, link, caller.value, inbox.value);
    if (o.presence !== false) await member.#beat.start();
    return member;
  }

  /**
   * Live first, then durable. Answers with what holds now; an unestablished backstop is tried again
   * in the background until it holds or the channel is left.
   */
  async join(channel: string): Promise<JoinReport> {
    if (!isChannel(channel)) throw new Plane3Error('usage', { detail: 'not a concrete channel' });
    this.#mailbox.joined(channel);
    return this.#channel(channel).join();
  }

  /**
   * Unsubscribes and drops what waits of the channel, then closes the membership. `not-serving`: no
   * daemon took it, so the membership stands; nothing of the channel surfaces in this process.
   */
  async leave(channel: string): Promise<Outcome<LeaveReport, LeaveRefusal>> {
    if (!isChannel(channel)) throw new Plane3Error('usage', { detail: 'not a concrete channel' });
    this.#mailbox.left(channel);
    const c = this.#channel(channel);
    await c.leave();
    const { left, leaveFailure } = c;
    if (left !== undefined) return done(leaveReport(left));
    if (leaveFailure === undefined) return unknown('the member was closed');
    const { code, outcome, message } = leaveFailure;
    if (code === 'unavailable' && outcome === 'not-executed')
      return refused('not-serving', message);
    if (outcome === 'unknown') return unknown(`${code}: ${message}`);
    if (code === 'not-found' || code === 'permission-denied') return refused(code, message);
    return refused('rejected', `${code}: ${message}`);
  }

  /** Stored by the broker whatever the daemon does; the receipt says which guarantee it got. */
  async post(
    channel: string,
    text: string,
    options: PostOptions = {},
  ): Promise<Outcome<Receipt, PostRefusal>> {
    const { space, lifecycle, role } = this.#o;
    const name = this.#o.name ?? lifecycle.actor;
    const sender = { space, prefix: this.#names.prefix, lifecycle, name, role };
    const id = options.id ?? randomUUID();
    // The class is asked for at the same time: storing never waits for the daemon.
    const list = this.#recentList();
    const stored = await postTo(this.#publisher, sender, channel, text, { ...options, id });
    if (stored.kind !== 'done') return stored;
    const listed = await list;
    const row = listed.ok ? listed.data.channels.find((c) => c.channel === channel) : undefined;
    const guarantee =
      row === undefined ? 'unknown' : row.class === 'live' ? 'live-only' : 'durable';
    const { seq, duplicate } = stored.value;
    return done({ channel, seq, id, class: row?.class ?? 'unknown', guarantee, duplicate });
  }

  /** What has arrived, bounded. Nothing is confirmed by reading it. */
  receive(options: ReceiveOptions = {}): Promise<Received> {
    return this.#receiver.receive(options);
  }

  /** Memberships, gap notices and readable channels, as the daemon answers now. */
  list(): Promise<CallResult<ListData>> {
    this.#listing ??= this.#askList();
    return this.#listing;
  }

  /** Asks the daemon now; what it does not answer within a second is `unknown`. */
  async health(): Promise<Health> {
    const answer = await this.#caller.call('health', {}, { deadlineMs: HEALTH_DEADLINE_MS });
    const askedAt = Date.now();
    if (!answer.ok) {
      const detail = `${answer.code}: ${answer.message}`;
      return { state: 'unknown', detail, incarnation: undefined, askedAt };
    }
    const { state: detail, incarnation } = answer.data;
    return { state: detail === 'serving' ? 'serving' : 'degraded', detail, incarnation, askedAt };
  }

  state(): MemberState {
    return {
      connected: this.#link.connected,
      channels: [...this.#channels.values()].map((c) => c.report),
      waiting: { durable: this.#mailbox.durableWaiting, live: this.#mailbox.liveWaiting },
      counts: { ...this.#mailbox.counts },
    };
  }

  /** What others see of it; `offline` is set by `close`. */
  setStatus(status: Exclude<Presence['status'], 'offline'>): Promise<void> {
    return this.#beat.set(status);
  }

  /** Gives back what was not confirmed, tells the daemon, goes offline. Memberships stay. */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    for (const off of this.#offs) off();
    for (const c of this.#channels.values()) c.close();
    await this.#receiver.close();
    if (this.#o.presence !== false) await this.#beat.stop();
    if (this.#receiver.attached)
      await this.#caller.call('detach', { mode: 'dlv' }, { deadlineMs: DETACH_DEADLINE_MS });
    this.#caller.close();
    this.#inbox.close();
    this.#publisher.close();
    if (this.#ownsLink) await this.#link.close();
  }

  #channel(channel: string): ChannelJoin {
    const known = this.#channels.get(channel);
    if (known !== undefined) return known;
    const fresh = new ChannelJoin(channel, {
      link: this.#link,
      prefix: this.#names.prefix,
      caller: this.#caller,
      list: () => this.list(),
      onLive: (m) => {
        const verdict = judgeLive(this.#names.prefix, this.#o.lifecycle, rawOf(m));
        if (verdict.kind === 'drop') {
          if (verdict.reason === 'invalid') this.#mailbox.counts.liveInvalid++;
          return;
        }
        if (this.#mailbox.hasLeft(verdict.channel)) return;
        this.#mailbox.putLive(verdict);
        this.#receiver.wake();
      },
      random: this.#o.random ?? Math.random,
    });
    this.#channels.set(channel, fresh);
    return fresh;
  }

  #recentList(): Promise<CallResult<ListData>> {
    const l = this.#listed;
    const freshMs = l?.answer.ok === true ? LIST_FRESH_MS : LIST_FAILED_FRESH_MS;
    if (l !== undefined && performance.now() - l.atMs < freshMs) return Promise.resolve(l.answer);
    return this.list();
  }

  async #askList(): Promise<CallResult<ListData>> {
    const answer = await this.#caller.call('list', {}, { deadlineMs: LIST_DEADLINE_MS });
    this.#listing = undefined;
    this.#listed = { answer, atMs: performance.now() };
    return answer;
  }

  #lost(): void {
    this.#lostAtMs ??= performance.now();
    this.#listed = undefined;
  }

  #restored(): void {
    const awayMs = Math.round(performance.now() - (this.#lostAtMs ?? performance.now()));
    this.#lostAtMs = undefined;
    for (const [channel, c] of this.#channels) {
      const { live, durable } = c.report;
      if (live && !durable)
        this.#mailbox.notice({ kind: 'notice', reason: 'live-gap', channel, awayMs });
      c.hurry();
    }
    this.#receiver.wake();
  }
}

const leaveReport = (d: LeaveData): LeaveReport => ({
  channel: d.channel,
  leaveCursor: d.leaveCursor,
  disposed: d.disposed,
  alreadyLeft: d.alreadyLeft === true,
});

export const openMember = (o: MemberOptions): Promise<Member> => Member.open(o);
