import type { Link, LinkSubscription, Msg } from '@plane3/link';
import { done, type Outcome, parseAck, refused, unknown } from '@plane3/protocol';
import type { Delivery, RequestSource, SourceRefusal } from '../ports.ts';

/** After the broker should have ended a pull, this long is waited for it to say so. */
const PULL_MARGIN_MS = 1_000;
const NS_PER_MS = 1_000_000;

/** Statuses with which the broker ends a pull that found fewer messages than asked. */
const NO_MORE = new Set([404, 408]);

const encoder = new TextEncoder();
const ACK = encoder.encode('+ACK');
const nak = (delayMs: number): Uint8Array =>
  encoder.encode(`-NAK ${JSON.stringify({ delay: Math.round(delayMs) * NS_PER_MS })}`);
const term = (reason: string): Uint8Array => encoder.encode(`+TERM ${reason}`);

interface OpenPull {
  readonly id: number;
  readonly countMax: number;
  readonly onRequest: (d: Delivery) => void;
  readonly end: (o: Outcome<number, SourceRefusal>) => void;
  count: number;
}

export interface DurableName {
  readonly stream: string;
  readonly durable: string;
}

/**
 * Pulls from one durable through an inbox of its own. Requests bear their stored subject; where
 * they came from is told by the acknowledgement subject alone, so a message that somebody else's
 * consumer sends to our inbox is dropped.
 */
export class NatsRequestSource implements RequestSource {
  readonly #link: Link;
  readonly #name: DurableName;
  readonly #inbox: string;
  readonly #undo: (() => void)[] = [];
  #subscription: LinkSubscription | undefined;
  #open: OpenPull | undefined;
  #pulls = 0;
  #strays = 0;
  #closed = false;

  private constructor(link: Link, name: DurableName) {
    this.#link = link;
    this.#name = name;
    this.#inbox = `${link.inboxPrefix}.${crypto.randomUUID().replaceAll('-', '')}`;
  }

  static async open(
    link: Link,
    name: DurableName,
  ): Promise<Outcome<NatsRequestSource, 'permission-denied'>> {
    const source = new NatsRequestSource(link, name);
    const subscribed = await link.subscribe(`${source.#inbox}.*`, (m) => source.#receive(m));
    if (subscribed.kind !== 'done') return subscribed;
    source.#subscription = subscribed.value;
    source.#undo.push(
      link.onLost(() => source.#open?.end(unknown('connection lost'))),
      link.onDenied((d) => {
        if (d.operation === 'publish' && d.subject === source.#api)
          source.#open?.end(refused('permission-denied', d.subject));
      }),
    );
    return done(source);
  }

  get #api(): string {
    return `$JS.API.CONSUMER.MSG.NEXT.${this.#name.stream}.${this.#name.durable}`;
  }

  strays(): number {
    return this.#strays;
  }

  pull(
    countMax: number,
    waitMs: number,
    onRequest: (d: Delivery) => void,
  ): Promise<Outcome<number, SourceRefusal>> {
    if (this.#closed) return Promise.resolve(unknown('closed'));
    return new Promise((ok) => {
      const id = ++this.#pulls;
      const late = setTimeout(() => end(unknown('no answer to a pull')), waitMs + PULL_MARGIN_MS);
      const end = (o: Outcome<number, SourceRefusal>): void => {
        if (this.#open?.id !== id) return;
        this.#open = undefined;
        clearTimeout(late);
        ok(o);
      };
      this.#open = { id, countMax, onRequest, end, count: 0 };
      const ask = { batch: countMax, expires: waitMs * NS_PER_MS };
      try {
        this.#link.publish(this.#api, encoder.encode(JSON.stringify(ask)), {
          reply: `${this.#inbox}.${id}`,
        });
      } catch (e) {
        end(unknown(e instanceof Error ? e.message : String(e)));
      }
    });
  }

  close(): void {
    this.#closed = true;
    for (const f of this.#undo.splice(0)) f();
    this.#open?.end(unknown('closed'));
    try {
      this.#subscription?.unsubscribe();
    } catch {
      // The connection is closed already; nothing is subscribed any more.
    }
  }

  #receive(m: Msg): void {
    if (m.subject.startsWith(`${this.#inbox}.`)) {
      this.#status(m);
      return;
    }
    const from = m.reply === undefined ? undefined : parseAck(m.reply);
    if (from?.stream !== this.#name.stream || from.consumer !== this.#name.durable) {
      this.#strays++;
      return;
    }
    // Without an open pull it is not answered, and comes again after the acknowledgement wait.
    const pull = this.#open;
    if (pull === undefined) return;
    pull.count++;
    pull.onRequest(this.#delivery(m, from.deliveries));
    if (pull.count >= pull.countMax) pull.end(done(pull.count));
  }

  #status(m: Msg): void {
    const pull = this.#open;
    // Statuses of an earlier pull say nothing about this one.
    if (pull === undefined || m.subject !== `${this.#inbox}.${pull.id}`) return;
    const code = m.headers?.code ?? 0;
    if (NO_MORE.has(code)) pull.end(done(pull.count));
    // Consumer deleted, leader changed, shutting down, nobody there: opening anew tells which.
    else pull.end(unknown(`pull ended with status ${code}`));
  }

  #delivery(m: Msg, deliveries: number): Delivery {
    const reply = m.reply as string;
    const answer = (body: Uint8Array): void => {
      if (this.#closed) return;
      try {
        this.#link.publish(reply, body);
      } catch {
        // Disconnected: it is handed over again, and decided alike.
      }
    };
    return {
      facts: { subject: m.subject, headerNames: m.headers?.keys() ?? [], body: m.data },
      deliveries,
      done: () => answer(ACK),
      retry: (delayMs) => answer(nak(delayMs)),
      terminate: (reason) => answer(term(reason)),
    };
  }
}
