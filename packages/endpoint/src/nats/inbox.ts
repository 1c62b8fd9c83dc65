import { randomBytes } from 'node:crypto';
import type { Link, Msg } from '@plane3/link';
import { done, isPlane3Error, type Outcome, refused, unknown } from '@plane3/protocol';
import { watchConnection } from './connection-watch.ts';

/** What can become of a published request besides its answer on a rail of its own. */
export type InboxEvent =
  | { readonly kind: 'message'; readonly message: Msg }
  /** Nobody subscribes to the subject: it was not executed. */
  | { readonly kind: 'no-responders' }
  | { readonly kind: 'denied'; readonly subject: string }
  /** Not published: there is no connection. */
  | { readonly kind: 'offline' }
  /** The connection went after it was published: nobody can say. */
  | { readonly kind: 'lost' };

/** Open requests at most; more are a defect of the caller. */
const OPEN_MAX = 4_096;
const NO_RESPONDERS = 503;

interface Slot {
  readonly subject: string;
  readonly listener: (event: InboxEvent) => void;
}

/**
 * One subscription below the connection's own inbox, for answers that are addressed by a reply
 * subject. Tells at once when nobody listens, when the broker denies the publish and when the
 * connection goes.
 */
export class Inbox {
  readonly #link: Link;
  readonly #head: string;
  readonly #slots = new Map<string, Slot>();
  #count = 0;
  #stop: () => void = () => undefined;

  private constructor(link: Link) {
    this.#link = link;
    this.#head = `${link.inboxPrefix}.${randomBytes(9).toString('hex')}`;
  }

  static async open(link: Link): Promise<Outcome<Inbox, 'permission-denied'>> {
    const inbox = new Inbox(link);
    const opened = await link.subscribe(`${inbox.#head}.*`, (m) => inbox.#arrived(m));
    if (opened.kind !== 'done') return opened;
    const offDenied = link.onDenied((d) => {
      if (d.operation === 'publish') inbox.#denied(d.subject);
    });
    const offLost = watchConnection(link, { lost: () => inbox.#lost(), restored: () => undefined });
    inbox.#stop = () => {
      offDenied();
      offLost();
      opened.value.unsubscribe();
    };
    return done(inbox);
  }

  /** Publishes with a fresh reply subject. Call the returned function to stop listening. */
  publish(subject: string, body: Uint8Array, listener: (event: InboxEvent) => void): () => void {
    const key = String(this.#count++);
    const close = () => void this.#slots.delete(key);
    if (this.#slots.size >= OPEN_MAX || !this.#link.connected) {
      listener({ kind: 'offline' });
      return close;
    }
    this.#slots.set(key, { subject, listener });
    try {
      this.#link.publish(subject, body, { reply: `${this.#head}.${key}` });
    } catch (error) {
      this.#slots.delete(key);
      if (!isPlane3Error(error)) throw error;
      listener({ kind: 'offline' });
    }
    return close;
  }

  /** One request, one answer. A timeout and a lost connection are `unknown`. */
  ask(
    subject: string,
    body: Uint8Array,
    timeoutMs: number,
  ): Promise<Outcome<Msg, 'no-responders' | 'permission-denied' | 'offline'>> {
    return new Promise((resolve) => {
      let close: () => void = () => undefined;
      const end = (o: Parameters<typeof resolve>[0]) => {
        clearTimeout(timer);
        close();
        resolve(o);
      };
      const timer = setTimeout(() => end(unknown(`no answer within ${timeoutMs} ms`)), timeoutMs);
      close = this.publish(subject, body, (e) => {
        if (e.kind === 'message') end(done(e.message));
        else if (e.kind === 'no-responders') end(refused('no-responders', subject));
        else if (e.kind === 'denied') end(refused('permission-denied', e.subject));
        else if (e.kind === 'offline') end(refused('offline', 'not connected'));
        else end(unknown('the connection was lost'));
      });
    });
  }

  close(): void {
    this.#stop();
    this.#lost();
  }

  #arrived(m: Msg): void {
    const slot = this.#slots.get(m.subject.slice(this.#head.length + 1));
    if (slot === undefined) return;
    const silent = m.data.length === 0 && m.headers?.code === NO_RESPONDERS;
    slot.listener(silent ? { kind: 'no-responders' } : { kind: 'message', message: m });
  }

  #denied(subject: string): void {
    for (const slot of [...this.#slots.values()])
      if (slot.subject === subject) slot.listener({ kind: 'denied', subject });
  }

  #lost(): void {
    const slots = [...this.#slots.values()];
    this.#slots.clear();
    for (const slot of slots) slot.listener({ kind: 'lost' });
  }
}
