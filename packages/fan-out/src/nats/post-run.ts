import type { JetStreamApi, Link } from '@plane3/link';
import { done, type Outcome } from '@plane3/protocol';
import { Fifo } from '../fifo.ts';
import type { PostRun, PostSink } from '../ports.ts';
import { type Pulled, PullInbox } from './pull.ts';

/** A pull that brought nothing ends at the broker after this. */
const PULL_EXPIRES_MS = 30_000;
/** How often the leader is asked whether the consumer is still this run's, hint or no hint. */
const CHECK_EVERY_MS = 2_000;
/** Hints of the broker bring the next check forward, at most so often. */
const HINT_EVERY_MS = 200;

interface Pull {
  left: number;
  readonly deadAtMs: number;
}

export interface RunOptions {
  readonly link: Link;
  readonly api: JetStreamApi;
  readonly stream: string;
  readonly consumer: string;
  /** Creation time of the consumer: another one under this name is not this run's. */
  readonly created: string;
  readonly sink: PostSink;
}

/**
 * One run of the `fanout` durable. Order is proved, not assumed: the consumer's own count must go
 * up by one from 1, so a message that was lost with a connection, or taken by somebody else who
 * pulls, shows with the next one and ends the run.
 */
export class NatsPostRun implements PostRun {
  private readonly o: RunOptions;
  private inbox: PullInbox | undefined;
  private closed = false;
  private consumerSeq = 0;
  private seq = 0;
  /** Posts asked for and not come yet. */
  private owed = 0;
  private pulls: Pull[] = [];
  private readonly acks = new Fifo<{ readonly seq: number; readonly subject: string }>();
  private timer: ReturnType<typeof setInterval> | undefined;
  private checking = false;
  private checkedAtMs = 0;
  /** What the broker had handed out at the last check, if this run had not seen all of it. */
  private missing: number | undefined;
  private undo: (() => void)[] = [];

  private constructor(o: RunOptions) {
    this.o = o;
  }

  static async open(o: RunOptions): Promise<Outcome<NatsPostRun, 'permission-denied'>> {
    const run = new NatsPostRun(o);
    const inbox = await PullInbox.open(o.link, o.stream, o.consumer, {
      message: (m) => run.take(m),
      hint: () => run.hint(),
    });
    if (inbox.kind !== 'done') return inbox;
    run.inbox = inbox.value;
    run.undo = [
      o.link.onLost(() => run.breakOff('connection lost')),
      o.link.onDenied((d) => {
        if (d.operation === 'publish' && d.subject === inbox.value.requestSubject)
          run.breakOff('the right to pull is missing');
      }),
    ];
    run.timer = setInterval(() => void run.check(), CHECK_EVERY_MS);
    run.timer.unref();
    return done(run);
  }

  ask(count: number): void {
    if (this.closed) return;
    this.owed += count;
    this.pull(count);
  }

  passed(seq: number): void {
    let last: string | undefined;
    for (let a = this.acks.at(0); a !== undefined && a.seq <= seq; a = this.acks.at(0)) {
      last = a.subject;
      this.acks.shift();
    }
    // Acknowledges everything before it as well; lost, the next one makes up for it.
    if (last !== undefined && !this.closed) this.inbox?.ack(last);
  }

  close(): void {
    if (this.closed) return;
    this.closed = true;
    clearInterval(this.timer);
    for (const f of this.undo) f();
    this.inbox?.close();
  }

  private breakOff(detail: string): void {
    if (this.closed) return;
    this.close();
    this.o.sink.broken(detail);
  }

  private pull(count: number): void {
    this.pulls.push({ left: count, deadAtMs: performance.now() + PULL_EXPIRES_MS });
    this.inbox?.pull(count, PULL_EXPIRES_MS);
  }

  private take(m: Pulled): void {
    if (this.closed) return;
    if (m.consumerSeq !== this.consumerSeq + 1) {
      this.breakOff(`message ${this.consumerSeq + 1} of the consumer is missing`);
      return;
    }
    this.consumerSeq = m.consumerSeq;
    this.owed = Math.max(0, this.owed - 1);
    const pull = this.pulls[0];
    if (pull !== undefined && --pull.left <= 0) this.pulls.shift();
    if (m.post.seq <= this.seq) return; // handed out again by the broker
    this.seq = m.post.seq;
    this.acks.push({ seq: m.post.seq, subject: m.ackSubject });
    this.o.sink.post(m.post);
  }

  private hint(): void {
    if (performance.now() - this.checkedAtMs >= HINT_EVERY_MS) void this.check();
  }

  /** Leader's answer: is it still our consumer, did we get all it handed out, does a pull wait? */
  private async check(): Promise<void> {
    if (this.checking || this.closed) return;
    this.checking = true;
    this.checkedAtMs = performance.now();
    const seen = this.consumerSeq;
    const o = await this.o.api.consumerInfo(this.o.stream, this.o.consumer);
    this.checking = false;
    if (this.closed || o.kind === 'unknown') return;
    if (o.kind === 'refused') {
      this.breakOff(`consumer: ${o.reason}`);
      return;
    }
    const info = o.value;
    if (String(info.created) !== this.o.created) {
      this.breakOff('the consumer was replaced');
      return;
    }
    const handedOut = info.delivered.consumer_seq;
    if (handedOut > this.consumerSeq && this.missing !== undefined && seen === this.consumerSeq) {
      this.breakOff(`messages up to ${handedOut} of the consumer did not arrive`);
      return;
    }
    this.missing = handedOut > this.consumerSeq ? handedOut : undefined;
    this.renewPulls(info.num_waiting === 0);
  }

  private renewPulls(noneWaits: boolean): void {
    const now = performance.now();
    // A pull that was sent a moment ago may not be counted yet.
    const young = now + PULL_EXPIRES_MS - HINT_EVERY_MS;
    this.pulls = this.pulls.filter((p) => p.deadAtMs > now && (!noneWaits || p.deadAtMs > young));
    const live = this.pulls.reduce((sum, p) => sum + p.left, 0);
    if (this.owed > live) this.pull(this.owed - live);
  }
}
