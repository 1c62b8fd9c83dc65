/**
 * One post, one surfacing: de-duplication across the live and the durable path (wire contract
 * section 5). The durable copy owns the acknowledgement, and nothing is acknowledged before the
 * host has confirmed that very post: a seen id authorises nothing.
 *
 * Pure: keys and acknowledgement tokens come from outside, and what to do goes out as a verdict.
 */
export type Path = 'live' | 'durable';

/** Keys remembered at most; the oldest are forgotten first and may then surface once more. */
const REMEMBERED_MAX = 8_192;

export interface Seen {
  readonly key: string;
  /** `waiting`: in the buffer. `surfaced`: the host has it. `confirmed`: the host said so. */
  stage: 'waiting' | 'surfaced' | 'confirmed';
  /** Acknowledgement subjects of the durable copies of this post that are not answered yet. */
  tokens: string[];
}

export interface Copy {
  readonly path: Path;
  readonly key: string;
  /** Of a durable copy. */
  readonly token?: string;
  /** The broker or the daemon says that this copy was handed over before. */
  readonly again: boolean;
}

export type Verdict =
  /** To be surfaced. */
  | { readonly kind: 'new'; readonly seen: Seen }
  /** The same post is with the host or waits: its confirm acknowledges this copy too. */
  | { readonly kind: 'merged'; readonly seen: Seen }
  /** The host confirmed this post before: acknowledge the copy and surface nothing. */
  | { readonly kind: 'acknowledge'; readonly token: string }
  | { readonly kind: 'dropped' };

export class Dedup {
  readonly #seen = new Map<string, Seen>();
  readonly #max: number;

  constructor(max: number = REMEMBERED_MAX) {
    this.#max = max;
  }

  get size(): number {
    return this.#seen.size;
  }

  arrive(copy: Copy): Verdict {
    const seen = this.#seen.get(copy.key);
    if (seen === undefined) return { kind: 'new', seen: this.#remember(copy) };
    if (copy.token === undefined) return { kind: 'dropped' };
    if (seen.stage === 'confirmed') return { kind: 'acknowledge', token: copy.token };
    if (seen.stage === 'surfaced' && copy.again) {
      // It was out for a whole ack wait: the host may have lost it, so it surfaces once more.
      seen.stage = 'waiting';
      seen.tokens = [copy.token];
      return { kind: 'new', seen };
    }
    seen.tokens.push(copy.token);
    return { kind: 'merged', seen };
  }

  /** A copy that left the buffer without being surfaced (dropped, peeked at) was never seen. */
  forget(seen: Seen): void {
    if (this.#seen.get(seen.key) === seen) this.#seen.delete(seen.key);
  }

  #remember(copy: Copy): Seen {
    if (this.#seen.size >= this.#max) {
      const oldest = this.#seen.keys().next();
      if (oldest.done !== true) this.#seen.delete(oldest.value);
    }
    const tokens = copy.token === undefined ? [] : [copy.token];
    const seen: Seen = { key: copy.key, stage: 'waiting', tokens };
    this.#seen.set(copy.key, seen);
    return seen;
  }
}

/** Marks a post as confirmed by the host; the tokens returned are to be acknowledged now. */
export function confirmSeen(seen: Seen): readonly string[] {
  seen.stage = 'confirmed';
  return seen.tokens.splice(0);
}
