import type { Link, LinkSubscription, Msg } from '@plane3/link';
import { BROKER_HEADERS, done, type Outcome, refused } from '@plane3/protocol';
import type { Post } from '../model.ts';

const NS_PER_MS = 1_000_000;
/** What one pull may bring at most, so that huge posts cannot fill the memory. */
const PULL_BYTES_MAX = 8 * 1024 * 1024;

/** One message of a pull consumer with what its acknowledgement subject says about it. */
export interface Pulled {
  readonly post: Post;
  readonly consumerSeq: number;
  readonly deliveries: number;
  readonly ackSubject: string;
}

export interface PullHandlers {
  message(pulled: Pulled): void;
  /** The broker ended a pull, or somebody made it look so: a hint to look, never a fact. */
  hint(): void;
}

/**
 * Pulls from one consumer over one inbox. Anything that does not come from exactly this consumer
 * is noise: whoever may publish anything can aim the broker's answers at this inbox.
 */
export class PullInbox {
  private readonly link: Link;
  private readonly next: string;
  private readonly inbox: string;
  private readonly subscription: LinkSubscription;

  private constructor(link: Link, next: string, inbox: string, subscription: LinkSubscription) {
    this.link = link;
    this.next = next;
    this.inbox = inbox;
    this.subscription = subscription;
  }

  static async open(
    link: Link,
    stream: string,
    consumer: string,
    handlers: PullHandlers,
  ): Promise<Outcome<PullInbox, 'permission-denied'>> {
    const inbox = `${link.inboxPrefix}.p${crypto.randomUUID().replaceAll('-', '')}`;
    const o = await link.subscribe(inbox, (m) => {
      const pulled = pulledOf(m, stream, consumer);
      if (pulled !== undefined) handlers.message(pulled);
      else if (m.subject === inbox) handlers.hint();
    });
    if (o.kind === 'unknown') return o;
    if (o.kind === 'refused') return refused(o.reason, o.detail);
    const next = `$JS.API.CONSUMER.MSG.NEXT.${stream}.${consumer}`;
    return done(new PullInbox(link, next, inbox, o.value));
  }

  get requestSubject(): string {
    return this.next;
  }

  /** False while disconnected. */
  pull(batch: number, expiresMs: number): boolean {
    const request = {
      batch,
      expires: expiresMs * NS_PER_MS,
      // A single message above the limit would never come at all.
      max_bytes: Math.max(PULL_BYTES_MAX, 2 * this.link.maxPayload),
    };
    return this.send(this.next, JSON.stringify(request), this.inbox);
  }

  ack(ackSubject: string): void {
    this.send(ackSubject, '+ACK', undefined);
  }

  close(): void {
    this.subscription.unsubscribe();
  }

  private send(subject: string, text: string, reply: string | undefined): boolean {
    if (!this.link.connected) return false;
    const body = new TextEncoder().encode(text);
    this.link.publish(subject, body, reply === undefined ? {} : { reply });
    return true;
  }
}

/** `$JS.ACK.[<domain>.<account>.]<stream>.<consumer>.<deliveries>.<seq>.<consumer seq>.<ns>.<pending>` */
function pulledOf(m: Msg, stream: string, consumer: string): Pulled | undefined {
  const t = m.reply?.split('.');
  if (t === undefined || t[0] !== '$JS' || t[1] !== 'ACK') return undefined;
  const at = t.length === 9 ? 2 : t.length >= 11 ? 4 : -1;
  if (at < 0 || t[at] !== stream || t[at + 1] !== consumer) return undefined;
  const [deliveries, seq, consumerSeq, storedNs, pending] = t.slice(at + 2, at + 7).map(Number);
  if (seq === undefined || consumerSeq === undefined || pending === undefined) return undefined;
  if (!Number.isSafeInteger(seq) || !Number.isSafeInteger(consumerSeq)) return undefined;
  const headers = m.headers;
  return {
    post: {
      seq,
      subject: m.subject,
      body: m.data,
      storedAtMs: Math.floor((storedNs ?? 0) / NS_PER_MS),
      brokerHeaders:
        headers === undefined ? [] : BROKER_HEADERS.filter((name) => headers.has(name)),
      pending,
    },
    consumerSeq,
    deliveries: deliveries ?? 1,
    ackSubject: m.reply as string,
  };
}
