/** What makes two copies the same post, where the sender gave an id and where it did not. */

/** Contents of id-less posts remembered at most. */
const CONTENTS_MAX = 2_048;

interface Content {
  live: number;
  durable: number;
  readonly bySeq: Map<number, number>;
}

/**
 * Keys for de-duplication. An id counts only together with its sender and channel, so that nobody
 * can suppress another's post by using its id. The empty id is never a key: the n-th live and the
 * n-th durable copy of one content are the same post, and two posts of one content stay two.
 */
export class PostKeys {
  readonly #contents = new Map<string, Content>();
  readonly #max: number;

  constructor(max: number = CONTENTS_MAX) {
    this.#max = max;
  }

  get size(): number {
    return this.#contents.size;
  }

  withId(from: string, channel: string, id: string): string {
    return `i\n${from}\n${channel}\n${id}`;
  }

  /** `digest`: of the whole message. */
  idlessLive(digest: string): string {
    const c = this.#content(digest);
    return `c\n${digest}\n${c.live++}`;
  }

  /** The same channel sequence is the same post, however often it is handed over. */
  idlessDurable(digest: string, seq: number | undefined): string {
    const c = this.#content(digest);
    const known = seq === undefined ? undefined : c.bySeq.get(seq);
    const n = known ?? c.durable++;
    if (seq !== undefined && known === undefined) c.bySeq.set(seq, n);
    return `c\n${digest}\n${n}`;
  }

  #content(digest: string): Content {
    const known = this.#contents.get(digest);
    if (known !== undefined && known.bySeq.size < this.#max) return known;
    if (this.#contents.size >= this.#max) {
      const oldest = this.#contents.keys().next();
      if (oldest.done !== true) this.#contents.delete(oldest.value);
    }
    const fresh: Content = { live: 0, durable: 0, bySeq: new Map() };
    this.#contents.set(digest, fresh);
    return fresh;
  }
}
