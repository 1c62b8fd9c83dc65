import type { Link, Msg } from '@plane3/link';
import {
  done,
  lifecycleKey,
  type Outcome,
  PRESENCE_TTL_MS,
  type Presence,
  parseJson,
  parseLifecycle,
  type SpaceNames,
} from '@plane3/protocol';
import type { AttachmentNews, Attachments } from '../ports.ts';
import { memberOfDurable } from './confirmations.ts';

/** A pull that is answered at once counts for this long: its sender is polling. */
export const POLL_HOLD_MS = 5_000;
/** However long a pull says that it waits. */
export const PULL_HOLD_MS_MAX = 600_000;
const NS_PER_MS = 1_000_000;

/** What is needed of a view of the presence bucket. */
export interface PresenceView {
  entries(): Iterable<[string, { readonly value: Presence }]>;
  onChange(listener: (key: string, value: Presence | undefined) => void): () => void;
}

/**
 * Who is there: fresh presence of a lifecycle, or a pull on its own hand-over durable, which a
 * plain subscription sees at once (foreign agents need no presence).
 */
export class NatsAttachments implements Attachments {
  readonly #link: Link;
  readonly #stream: string;
  readonly #presence: PresenceView | undefined;

  constructor(o: {
    readonly link: Link;
    readonly names: SpaceNames;
    readonly presence?: PresenceView;
  }) {
    this.#link = o.link;
    this.#stream = o.names.streams.dlv;
    this.#presence = o.presence;
  }

  async open(
    onNews: (news: AttachmentNews) => void,
  ): Promise<Outcome<() => void, 'permission-denied'>> {
    const head = `$JS.API.CONSUMER.MSG.NEXT.${this.#stream}.`;
    const pulls = await this.#link.subscribe(`${head}*`, (m) => {
      const member = memberOfDurable(m.subject.slice(head.length));
      const forMs = m.subject.startsWith(head) ? pullHoldMs(m) : undefined;
      if (member !== undefined && forMs !== undefined) onNews({ kind: 'present', member, forMs });
    });
    if (pulls.kind !== 'done') return pulls;
    const last = new Map<string, string>();
    const note = (key: string, p: Presence | undefined): void => {
      const before = last.get(key);
      const l = p === undefined ? undefined : parseLifecycle(`${key}.${p.lifecycleUid}`);
      const here = p?.status !== 'offline' && p?.card.id === key && l !== undefined;
      const member = here ? lifecycleKey(l) : undefined;
      if (before !== undefined && before !== member) onNews({ kind: 'absent', member: before });
      if (member === undefined) last.delete(key);
      else {
        last.set(key, member);
        onNews({ kind: 'present', member, forMs: PRESENCE_TTL_MS });
      }
    };
    const undo = this.#presence?.onChange((key, value) => note(key, value));
    for (const [key, { value }] of this.#presence?.entries() ?? []) note(key, value);
    return done(() => {
      pulls.value.unsubscribe();
      undo?.();
    });
  }
}

/** How long a pull waits; `undefined` for what is no pull. */
export function pullHoldMs(m: Pick<Msg, 'data' | 'headers'>): number | undefined {
  if ((m.headers?.code ?? 0) !== 0) return undefined;
  if (m.data.length === 0) return PULL_HOLD_MS_MAX;
  const json = parseJson(m.data);
  if (!json.ok) return undefined;
  if (typeof json.value === 'number') return PULL_HOLD_MS_MAX;
  if (typeof json.value !== 'object' || json.value === null) return undefined;
  const { expires, no_wait } = json.value as { expires?: unknown; no_wait?: unknown };
  const waits = typeof expires === 'number' && expires > 0 ? expires / NS_PER_MS : undefined;
  if (waits === undefined) return no_wait === true ? POLL_HOLD_MS : PULL_HOLD_MS_MAX;
  return Math.min(PULL_HOLD_MS_MAX, Math.max(POLL_HOLD_MS, Math.ceil(waits)));
}
