import type { Caller, Inbox } from '@plane3/endpoint/nats';
import type { Link, Msg } from '@plane3/link';
import { done, isPlane3Error, type Lifecycle, type Outcome } from '@plane3/protocol';
import { dataOf, judgeFrame, pendingBehind, type RawCopy, textOf } from './copies.ts';
import { confirmSeen, type Seen } from './dedup.ts';
import { HandOver, type Pull, type PullRefusal } from './hand-over.ts';
import type { Mailbox, Waiting } from './mailbox.ts';
import {
  type ConfirmRefusal,
  type Item,
  RECEIVE_ENTRIES_MAX,
  RECEIVE_WAIT_MAX_MS,
  type Received,
  type ReceiveOptions,
} from './model.ts';

const ENTRIES_DEFAULT = 64;
/** Window asked for at `attach`: the unconfirmed copies that this client takes. */
const WINDOW = 64;
const WINDOW_BYTES = 1 << 20;
const ATTACH_DEADLINE_MS = 2_000;
const ACK_TIMEOUT_MS = 2_000;
/** One pull waits at most this long; a longer wait is several, so that a dead one is noticed. */
const PULL_WAIT_MAX_MS = 30_000;
/** Without an answer on the hand-over durable it is not asked again at once. */
const REPULL_PAUSE_MS = 500;

const ACK = new TextEncoder().encode('+ACK');
const NAK = new TextEncoder().encode('-NAK');
const TERM = new TextEncoder().encode('+TERM');

export interface ReceiverPorts {
  readonly link: Link;
  /** `cotal.<space token>`. */
  readonly prefix: string;
  readonly stream: string;
  readonly member: Lifecycle;
  readonly caller: Caller;
  readonly inbox: Inbox;
  readonly mailbox: Mailbox;
}

export const rawOf = (m: Msg): RawCopy => ({
  subject: m.subject,
  body: m.data,
  headerNames: m.headers?.keys() ?? [],
  header: (name) => (m.headers?.has(name) === true ? m.headers.get(name) : undefined),
});

/** Whether both questions behind "no mail" were answered. */
interface Asked {
  readonly answered: boolean;
  readonly reason: string | undefined;
}
const ANSWERED: Asked = { answered: true, reason: undefined };

/** Reads the hand-over durable and gives items to the host; nothing is confirmed by reading. */
export class Receiver {
  readonly #p: ReceiverPorts;
  readonly #handOver: HandOver;
  /** Posts with copies that are not acknowledged: given back at close. The broker bounds them. */
  readonly #held = new Set<Seen>();
  #turn: Promise<unknown> = Promise.resolve();
  #standing: Pull | undefined;
  #pulled: Outcome<number, PullRefusal> = done(0);
  #behind = 0;
  #wake: (() => void)[] = [];
  #attached = false;
  #closed = false;

  constructor(ports: ReceiverPorts) {
    this.#p = ports;
    this.#handOver = new HandOver(ports.link, ports.stream, ports.member);
  }

  /** Whether the daemon took an `attach` of this process. */
  get attached(): boolean {
    return this.#attached;
  }

  /** Something arrived that a waiting read should look at. */
  wake(): void {
    for (const f of this.#wake.splice(0)) f();
  }

  /** One read at a time; the next waits for its turn. */
  receive(o: ReceiveOptions): Promise<Received> {
    const mine = this.#turn.then(() => this.#receive(o));
    this.#turn = mine.catch(() => undefined);
    return mine;
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.wake();
    this.#standing?.cancel();
    await this.#turn;
    for (const seen of this.#held) this.#send(seen.tokens.splice(0), NAK);
    this.#held.clear();
    await this.#p.link.flush();
  }

  async #receive(o: ReceiveOptions): Promise<Received> {
    const max = Math.min(Math.max(1, o.maxEntries ?? ENTRIES_DEFAULT), RECEIVE_ENTRIES_MAX);
    const waitMs = Math.min(Math.max(0, o.waitMs ?? 0), RECEIVE_WAIT_MAX_MS);
    const untilMs = performance.now() + waitMs;
    const { mailbox } = this.#p;
    let attachedNow = !this.#attached;
    let asked = await this.#look(max, attachedNow);
    while (mailbox.empty && !this.#closed) {
      // What the daemon may hand over now is there once it has answered.
      if (!attachedNow) asked = await this.#look(max, true);
      attachedNow = false;
      const leftMs = untilMs - performance.now();
      if (!mailbox.empty || leftMs <= 0) break;
      await this.#wait(Math.min(leftMs, PULL_WAIT_MAX_MS));
      if (!mailbox.empty) await this.#pullNow(max);
    }
    return this.#give(max, asked, o.peek === true);
  }

  /** One look: attach where it is due, then what is on the durable. */
  async #look(max: number, attach: boolean): Promise<Asked> {
    const attached = attach ? await this.#attach() : ANSWERED;
    const pulled = await this.#pullNow(max);
    return attached.answered ? pulled : attached;
  }

  async #attach(): Promise<Asked> {
    const answer = await this.#p.caller.call(
      'attach',
      { mode: 'dlv', window: WINDOW, bytes: WINDOW_BYTES },
      { deadlineMs: ATTACH_DEADLINE_MS },
    );
    if (answer.ok) {
      this.#attached = true;
      return ANSWERED;
    }
    return { answered: false, reason: `attach: ${answer.code}: ${answer.message}` };
  }

  async #pullNow(max: number): Promise<Asked> {
    const room = max - this.#p.mailbox.durableWaiting;
    if (room <= 0 || this.#closed) return ANSWERED;
    const outcome = await this.#pull(room, 0).answer;
    this.#pulled = outcome;
    if (outcome.kind === 'done') {
      if (outcome.value === 0) this.#behind = 0;
      return ANSWERED;
    }
    const why = outcome.kind === 'refused' ? `${outcome.reason}: ${outcome.detail}` : outcome.cause;
    return { answered: false, reason: `hand-over: ${why}` };
  }

  #pull(batch: number, waitMs: number): Pull {
    return this.#handOver.pull({ batch, waitMs }, (m) => this.#copy(m));
  }

  /** Until something arrives; a pull of one copy stands meanwhile, which also attaches a member. */
  async #wait(ms: number): Promise<void> {
    const woken = new Promise<void>((ok) => this.#wake.push(ok));
    if (this.#standing === undefined && this.#pulled.kind === 'done') {
      const pull = this.#pull(1, Math.min(ms, PULL_WAIT_MAX_MS));
      this.#standing = pull;
      void pull.answer.then((outcome) => {
        this.#standing = undefined;
        this.#pulled = outcome;
        this.wake();
      });
    }
    // Without a standing pull (no durable, no right) it is looked at again after a pause.
    const pauseMs = this.#standing === undefined ? Math.min(ms, REPULL_PAUSE_MS) : ms;
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((ok) => {
      timer = setTimeout(ok, pauseMs);
    });
    await Promise.race([woken, late]);
    clearTimeout(timer);
  }

  #copy(m: Msg): void {
    const ack = m.reply ?? '';
    this.#behind = pendingBehind(ack);
    const { prefix, member, mailbox } = this.#p;
    const verdict = judgeFrame(prefix, member, rawOf(m), ack);
    if (verdict.kind === 'terminate') {
      mailbox.counts.framesTerminated++;
      this.#send([ack], TERM);
      return;
    }
    const put = mailbox.putDurable(verdict, ack);
    if (put.kind === 'held') this.#held.add(put.seen);
    if (put.kind === 'acknowledge') void this.#acknowledge(put.token);
  }

  #give(max: number, asked: Asked, peek: boolean): Received {
    const { mailbox } = this.#p;
    const taken = mailbox.take(max);
    const notices = mailbox.takeNotices();
    const items = taken.map((w) => this.#item(w));
    if (peek) {
      for (const w of taken) this.#held.delete(w.seen);
      this.#send(mailbox.putBack(taken), NAK);
    }
    const kept = peek ? 0 : mailbox.durableWaiting + mailbox.liveWaiting;
    return {
      items,
      notices,
      mail: asked.answered ? 'answered' : 'unknown',
      reason: asked.reason,
      more: kept + this.#behind,
    };
  }

  #item(w: Waiting): Item {
    const { message, channel, from } = w.copy;
    let confirming: Promise<Outcome<void, ConfirmRefusal>> | undefined;
    return {
      kind: w.kind,
      channel,
      seq: w.seq,
      id: message.id,
      from,
      fromName: message.from.name,
      ts: message.ts,
      text: textOf(message),
      data: dataOf(message),
      redelivered: w.redelivered,
      message,
      confirm: () => {
        confirming ??= this.#confirm(w).finally(() => {
          if (w.seen.tokens.length > 0) confirming = undefined;
        });
        return confirming;
      },
    };
  }

  /** What could not be acknowledged stays with the post: a second confirm tries it again. */
  async #confirm(w: Waiting): Promise<Outcome<void, ConfirmRefusal>> {
    this.#held.delete(w.seen);
    let worst: Outcome<void, ConfirmRefusal> = done(undefined);
    const asks = confirmSeen(w.seen).map(async (token) => {
      const answer = await this.#acknowledge(token);
      if (answer.kind === 'done') return;
      worst = answer;
      w.seen.tokens.push(token);
    });
    await Promise.all(asks);
    return worst;
  }

  /** Answered by the broker, so that a consumer that goes right afterwards has counted it. */
  async #acknowledge(token: string): Promise<Outcome<void, ConfirmRefusal>> {
    const answer = await this.#p.inbox.ask(token, ACK, ACK_TIMEOUT_MS);
    if (answer.kind === 'done') return done(undefined);
    if (answer.kind === 'unknown') return answer;
    return {
      ...answer,
      reason: answer.reason === 'no-responders' ? 'binding-lost' : answer.reason,
    };
  }

  /** Nak and term need no answer: one that is lost costs a hand-over after the ack wait. */
  #send(tokens: readonly string[], what: Uint8Array): void {
    for (const t of tokens) {
      try {
        this.#p.link.publish(t, what);
      } catch (error) {
        if (!isPlane3Error(error)) throw error;
        return;
      }
    }
  }
}
