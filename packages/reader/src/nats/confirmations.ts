import type { Link } from '@plane3/link';
import {
  done,
  type LifecycleKey,
  lifecycleKey,
  type Outcome,
  parseAck,
  parseLifecycle,
  type SpaceNames,
} from '@plane3/protocol';
import { type AckSeen, payloadOf } from '../confirmation.ts';
import type { Confirmations } from '../ports.ts';

const PREFIX = 'dlv_';

/** The member whose durable has that name; no part of a lifecycle has a dash in it. */
export function memberOfDurable(durable: string): LifecycleKey | undefined {
  if (!durable.startsWith(PREFIX)) return undefined;
  const l = parseLifecycle(durable.slice(PREFIX.length).replaceAll('-', '.'));
  return l === undefined ? undefined : lifecycleKey(l);
}

/** Acks as the broker sees them: a plain subscription beside its own (wire contract section 5). */
export class NatsConfirmations implements Confirmations {
  readonly #link: Link;
  readonly #stream: string;

  constructor(o: { readonly link: Link; readonly names: SpaceNames }) {
    this.#link = o.link;
    this.#stream = o.names.streams.dlv;
  }

  async open(onAck: (ack: AckSeen) => void): Promise<Outcome<() => void, 'permission-denied'>> {
    const o = await this.#link.subscribe(`$JS.ACK.${this.#stream}.>`, (m) => {
      // What the broker delivers here for somebody else bears that message's own subject.
      const at = parseAck(m.subject);
      if (at?.stream !== this.#stream) return;
      // A pull consumer's delivery would have the broker's own ack subject to reply to.
      const made = m.reply?.startsWith('$JS.') === true;
      onAck({
        durable: at.consumer,
        seq: at.seq,
        storedNs: at.storedNs,
        payload: made ? 'other' : payloadOf(m.data),
        hasHeaders: m.headers !== undefined,
      });
    });
    return o.kind === 'done' ? done(() => o.value.unsubscribe()) : o;
  }

  memberOf(durable: string): LifecycleKey | undefined {
    return memberOfDurable(durable);
  }
}
