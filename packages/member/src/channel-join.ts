import type { JoinData, LeaveData, ListData } from '@plane3/endpoint';
import type { Caller, CallFailure, CallResult } from '@plane3/endpoint/nats';
import type { Link, LinkSubscription, Msg } from '@plane3/link';
import { chatFilter } from '@plane3/protocol';
import {
  initialJoin,
  type JoinDecision,
  type JoinEvent,
  type JoinReport,
  type JoinState,
  reportOf,
  stepJoin,
} from './join-machine.ts';

/** Deadlines of the calls that a join makes. */
export const LIST_DEADLINE_MS = 2_000;
const JOIN_DEADLINE_MS = 10_000;
/** Part of a back-off that is random, so that many members do not come at one instant. */
const JITTER_PART = 0.25;

export interface ChannelJoinPorts {
  readonly link: Link;
  readonly prefix: string;
  readonly caller: Caller;
  readonly list: () => Promise<CallResult<ListData>>;
  readonly onLive: (m: Msg) => void;
  /** 0 up to 1. */
  readonly random: () => number;
}

/** Runs the join machine of one channel; dull on purpose. */
export class ChannelJoin {
  readonly #ports: ChannelJoinPorts;
  readonly #filter: string;
  readonly #state: JoinState;
  readonly #waiters: (() => void)[] = [];
  readonly #offDenied: () => void;
  #subscription: LinkSubscription | undefined;
  #timer: NodeJS.Timeout | undefined;
  #closed = false;
  #left: LeaveData | undefined;
  #leaveFailure: CallFailure | undefined;

  constructor(channel: string, ports: ChannelJoinPorts) {
    this.#ports = ports;
    this.#filter = chatFilter(ports.prefix, channel);
    this.#state = initialJoin(channel);
    this.#offDenied = ports.link.onDenied((d) => {
      if (d.operation !== 'subscription' || d.subject !== this.#filter) return;
      if (this.#state.live !== 'yes') return;
      this.#subscription?.unsubscribe();
      this.#subscription = undefined;
      const text = `permission denied: ${d.subject}`;
      this.#step({ type: 'live-refused', reason: { code: 'permission-denied', text } });
    });
  }

  get report(): JoinReport {
    return reportOf(this.#state);
  }

  /** What the daemon answered to the last leave; `undefined` while it has not. */
  get left(): LeaveData | undefined {
    return this.#left;
  }

  /** Why the daemon did not take the last leave. */
  get leaveFailure(): CallFailure | undefined {
    return this.#leaveFailure;
  }

  /** Answers once nothing is out: durable, live only with a reason, or refused. */
  async join(): Promise<JoinReport> {
    await this.#settle({ type: 'join' });
    return this.report;
  }

  async leave(): Promise<JoinReport> {
    this.#left = undefined;
    this.#leaveFailure = undefined;
    await this.#settle({ type: 'leave' });
    return this.report;
  }

  /** The broker or the daemon is back: no need to wait out the back-off. */
  hurry(): void {
    if (this.#state.waiting) this.#step({ type: 'retry-due' });
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
    this.#offDenied();
    this.#subscription?.unsubscribe();
    for (const told of this.#waiters.splice(0)) told();
  }

  #settle(event: JoinEvent): Promise<void> {
    return new Promise((told) => {
      this.#waiters.push(told);
      this.#step(event);
    });
  }

  #step(event: JoinEvent): void {
    if (this.#closed) return;
    for (const d of stepJoin(this.#state, event)) this.#do(d);
  }

  #do(d: JoinDecision): void {
    switch (d.kind) {
      case 'settled':
        for (const told of this.#waiters.splice(0)) told();
        return;
      case 'unsubscribe':
        this.#subscription?.unsubscribe();
        this.#subscription = undefined;
        return;
      case 'retry': {
        clearTimeout(this.#timer);
        const afterMs = d.afterMs * (1 - JITTER_PART * this.#ports.random());
        this.#timer = setTimeout(() => this.#step({ type: 'retry-due' }), afterMs);
        return;
      }
      default:
        void this.#ask(d).then((event) => this.#step(event));
    }
  }

  #ask(
    d: Extract<JoinDecision, { kind: 'list' | 'subscribe' | 'join' | 'leave' }>,
  ): Promise<JoinEvent> {
    switch (d.kind) {
      case 'list':
        return this.#list();
      case 'subscribe':
        return this.#subscribe();
      case 'join':
        return this.#join(d.joinCursor);
      case 'leave':
        return this.#leave(d.generation);
    }
  }

  async #list(): Promise<JoinEvent> {
    const answer = await this.#ports.list();
    if (!answer.ok)
      return { type: 'list-failed', reason: { code: answer.code, text: answer.message } };
    const { channel } = this.#state;
    const row = answer.data.channels.find((c) => c.channel === channel);
    // A channel that is not listed may be new or not readable: the join itself will tell.
    return { type: 'listed', class: row?.class ?? 'unknown', frontier: row?.frontier };
  }

  async #subscribe(): Promise<JoinEvent> {
    const opened = await this.#ports.link.subscribe(this.#filter, this.#ports.onLive);
    if (opened.kind === 'refused') {
      const text = `permission denied: ${this.#filter}`;
      return { type: 'live-refused', reason: { code: 'permission-denied', text } };
    }
    if (opened.kind === 'unknown')
      return { type: 'subscribe-failed', reason: { code: 'unavailable', text: opened.cause } };
    if (this.#closed) opened.value.unsubscribe();
    else this.#subscription = opened.value;
    return { type: 'subscribed' };
  }

  async #join(joinCursor: number | undefined): Promise<JoinEvent> {
    const { channel } = this.#state;
    const args = { channel, ...(joinCursor === undefined ? {} : { joinCursor }) };
    const answer: CallResult<JoinData> = await this.#ports.caller.call('join', args, {
      deadlineMs: JOIN_DEADLINE_MS,
    });
    if (!answer.ok) {
      const { code, outcome, message } = answer;
      return { type: 'join-failed', code, outcome, text: message };
    }
    const { generation, joinCursor: cursor, lost } = answer.data;
    return { type: 'joined', generation, joinCursor: cursor, lost };
  }

  async #leave(generation: number | undefined): Promise<JoinEvent> {
    const { channel } = this.#state;
    const args = { channel, ...(generation === undefined ? {} : { generation }) };
    const answer = await this.#ports.caller.call('leave', args, { deadlineMs: JOIN_DEADLINE_MS });
    if (!answer.ok) {
      this.#leaveFailure = answer;
      // There was no membership: nothing is left to take back.
      if (answer.code === 'not-found') return { type: 'left' };
      return { type: 'leave-failed', reason: { code: answer.code, text: answer.message } };
    }
    this.#left = answer.data;
    return { type: 'left' };
  }
}
