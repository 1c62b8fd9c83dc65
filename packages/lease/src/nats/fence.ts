import { type HeaderList, JetStreamApi, type Link, Publisher } from '@plane3/link';
import { done, HEADER, type Outcome, parseJson } from '@plane3/protocol';
import type { FenceMark, FenceRefusal, FenceSeen } from '../fence.ts';
import type { FencePort } from '../ports.ts';
import { fromApi, fromPublish } from './row.ts';

/**
 * Exempts the mark from its stream's age. Only while the broker runs: measured on 2.14.0, a restart
 * drops it once it is older than a `max_age`, unless the stream leaves delete markers. A stream
 * without `max_age` keeps it; where it is lost, writes are refused and the lease is fenced anew.
 */
const FOR_EVER: HeaderList = [[HEADER.ttl, 'never']];

export interface NatsFenceOptions {
  /** A connection to the stream's account. */
  readonly link: Link;
  readonly stream: string;
  /** The stream's fence subject of the shard (wire contract section 4). */
  readonly subject: string;
}

export class NatsFence implements FencePort {
  readonly #options: NatsFenceOptions;
  readonly #api: JetStreamApi;
  readonly #publisher: Publisher;

  constructor(o: NatsFenceOptions) {
    this.#options = o;
    this.#api = new JetStreamApi(o.link);
    this.#publisher = new Publisher(o.link);
  }

  async read(): Promise<Outcome<FenceSeen | undefined, FenceRefusal>> {
    const last = await this.#api.lastOf(this.#options.stream, this.#options.subject);
    if (last.kind !== 'done') return fromApi(last);
    const m = last.value;
    return done(m === undefined ? undefined : { seq: m.seq, mark: parseMark(m.body) });
  }

  async write(mark: FenceMark, expectedSeq: number): Promise<Outcome<number, FenceRefusal>> {
    const { stream, subject } = this.#options;
    const info = await this.#api.streamInfo(stream);
    if (info.kind !== 'done') return fromApi(info);
    const ages = info.value.config.allow_msg_ttl === true;
    const headers: HeaderList = [
      [HEADER.expectSubjectSeq, String(expectedSeq)],
      ...(ages ? FOR_EVER : []),
    ];
    const body = new TextEncoder().encode(JSON.stringify(mark));
    const stored = await this.#publisher.publish(subject, body, headers);
    return fromPublish(stored.kind === 'done' ? done(stored.value.seq) : stored);
  }

  close(): void {
    this.#publisher.close();
  }
}

function parseMark(body: Uint8Array): FenceMark | undefined {
  const json = parseJson(body);
  if (!json.ok || typeof json.value !== 'object' || json.value === null) return undefined;
  const { incarnation, leaseRevision, at } = json.value as Partial<Record<string, unknown>>;
  if (typeof incarnation !== 'string' || typeof at !== 'number') return undefined;
  return typeof leaseRevision === 'number' && Number.isSafeInteger(leaseRevision)
    ? { incarnation, leaseRevision, at }
    : undefined;
}
