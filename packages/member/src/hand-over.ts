import { randomBytes } from 'node:crypto';
import { watchConnection } from '@plane3/endpoint/nats';
import type { Link, Msg } from '@plane3/link';
import {
  done,
  handOverDurable,
  isPlane3Error,
  type Lifecycle,
  type Outcome,
  refused,
  unknown,
} from '@plane3/protocol';

/** The member's own hand-over durable, read by bounded pulls. */
export type PullRefusal = 'binding-lost' | 'permission-denied' | 'offline';

/** The broker answers every pull; beyond its expiry and this nobody can say. */
const PULL_GRACE_MS = 2_000;
const NS_PER_MS = 1_000_000;

/** Status numbers of the broker's answers to a pull. */
const NO_MESSAGES = 404;
const REQUEST_TIMEOUT = 408;
const NO_RESPONDERS = 503;

export interface PullOptions {
  readonly batch: number;
  /** 0: what is there now. */
  readonly waitMs: number;
}

/** A pull that is out. `cancel` stops listening; what comes later is handed over again. */
export interface Pull {
  readonly answer: Promise<Outcome<number, PullRefusal>>;
  cancel(): void;
}

export class HandOver {
  readonly #link: Link;
  readonly #subject: string;
  readonly #head: string;
  #count = 0;

  constructor(link: Link, stream: string, member: Lifecycle) {
    this.#link = link;
    this.#subject = `$JS.API.CONSUMER.MSG.NEXT.${stream}.${handOverDurable(member)}`;
    this.#head = `${link.inboxPrefix}.${randomBytes(9).toString('hex')}`;
  }

  /** `onCopy` gets each copy as it comes; the answer: how many came, and that no more are there. */
  pull(o: PullOptions, onCopy: (m: Msg) => void): Pull {
    const inbox = `${this.#head}.${this.#count++}`;
    let cancel: () => void = () => undefined;
    const answer = new Promise<Outcome<number, PullRefusal>>((resolve) => {
      let count = 0;
      if (!this.#link.connected) {
        resolve(refused('offline', 'not connected'));
        return;
      }
      const sub = this.#link.nc.subscribe(inbox, {
        callback: (error, m) => {
          if (error !== null) end(unknown(error.message));
          else if (m.subject === inbox) end(statusOf(m, count));
          else {
            onCopy(m);
            if (++count >= o.batch) end(done(count));
          }
        },
      });
      const offDenied = this.#link.onDenied((d) => {
        if (d.operation === 'publish' && d.subject === this.#subject)
          end(refused('permission-denied', d.subject));
      });
      const offLost = watchConnection(this.#link, {
        lost: () => end(unknown('the connection was lost')),
        restored: () => undefined,
      });
      const timer = setTimeout(() => end(unknown('no answer to a pull')), o.waitMs + PULL_GRACE_MS);
      const end = (outcome: Outcome<number, PullRefusal>): void => {
        clearTimeout(timer);
        offDenied();
        offLost();
        sub.unsubscribe();
        resolve(outcome);
      };
      cancel = () => end(done(count));
      const request =
        o.waitMs > 0
          ? { batch: o.batch, expires: Math.ceil(o.waitMs) * NS_PER_MS }
          : { batch: o.batch, no_wait: true };
      try {
        const body = new TextEncoder().encode(JSON.stringify(request));
        this.#link.publish(this.#subject, body, { reply: inbox });
      } catch (error) {
        if (!isPlane3Error(error)) throw error;
        end(refused('offline', 'not connected'));
      }
    });
    return { answer, cancel: () => cancel() };
  }
}

function statusOf(m: Msg, count: number): Outcome<number, PullRefusal> {
  const code = m.headers?.code ?? 0;
  if (code === NO_MESSAGES || code === REQUEST_TIMEOUT) return done(count);
  if (code === NO_RESPONDERS) return refused('binding-lost', 'the hand-over durable is not there');
  return unknown(`the broker ended the pull with ${code} ${m.headers?.description ?? ''}`.trim());
}
