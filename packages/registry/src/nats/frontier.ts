import { JetStreamApi, type Link } from '@plane3/link';
import { done, type Outcome, streamIncarnation } from '@plane3/protocol';
import type { Frontier } from '../membership.ts';
import type { FrontierReader } from '../ports.ts';

/**
 * The end of the channel stream by its leader. Needs the stream's info and, for the age of a
 * claimed cursor, a read of one message; ages are by the broker's clock on both ends.
 */
export class NatsFrontier implements FrontierReader {
  readonly #api: JetStreamApi;
  readonly #stream: string;

  constructor(link: Link, stream: string) {
    this.#api = new JetStreamApi(link);
    this.#stream = stream;
  }

  async read(behind: number | undefined): Promise<Outcome<Frontier>> {
    const info = await this.#api.streamInfo(this.#stream);
    if (info.kind !== 'done') return info;
    const { created, state, ts } = info.value;
    const at = { incarnation: streamIncarnation(created), seq: state.last_seq };
    if (behind === undefined || behind >= state.last_seq) return done(at);
    const oldest = await this.#api.nextOf(this.#stream, '>', behind + 1);
    if (oldest.kind !== 'done') return oldest;
    if (oldest.value === undefined) return done(at);
    const nowMs = ts === undefined ? Date.now() : Date.parse(ts);
    return done({ ...at, behindAgeMs: Math.max(0, nowMs - Date.parse(oldest.value.time)) });
  }
}
