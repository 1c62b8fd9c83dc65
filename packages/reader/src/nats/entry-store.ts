import type { JetStreamApi, StoredMessage } from '@plane3/link';
import {
  done,
  HEADER,
  inboxSubject,
  isChannel,
  type LifecycleKey,
  lifecycleKey,
  type Outcome,
  parseEntryId,
  parseLifecycle,
  parseMemberSubject,
  parsePrincipal,
  refused,
  type SpaceNames,
} from '@plane3/protocol';
import type { StoredEntry } from '../model.ts';
import type { EntryStore, StorePage, StoreRefusal } from '../ports.ts';
import { inOurWords } from './refusals.ts';

/** The member store on the broker: batched reads of one member's subject, no consumer. */
export class NatsEntryStore implements EntryStore {
  readonly #api: JetStreamApi;
  readonly #names: SpaceNames;

  /** `api` is bound to the vault account's connection. */
  constructor(o: { readonly api: JetStreamApi; readonly names: SpaceNames }) {
    this.#api = o.api;
    this.#names = o.names;
  }

  async read(
    member: LifecycleKey,
    fromSeq: number,
    max: { readonly entries: number; readonly bytes: number },
  ): Promise<Outcome<StorePage, StoreRefusal>> {
    const lifecycle = parseLifecycle(member);
    if (lifecycle === undefined) return refused('rejected', 'not a lifecycle');
    const { prefix, streams } = this.#names;
    const subject = inboxSubject(prefix, lifecycle);
    const batch = await this.#api.batchOf(streams.inbox, subject, fromSeq, max.entries, max.bytes);
    if (batch.kind !== 'done') return inOurWords(batch);
    const messages = [...batch.value.messages];
    let nextSeq = Math.max(fromSeq, (messages.at(-1)?.seq ?? 0) + 1);
    let complete = batch.value.complete;
    if (complete || messages.length === 0) {
      // A direct read may be answered by a replica that lags, and one message may be larger than
      // the page: only the leader says that nothing follows.
      const next = await this.#api.nextOf(streams.inbox, subject, nextSeq);
      if (next.kind !== 'done') return inOurWords(next);
      complete = next.value === undefined;
      if (next.value !== undefined) {
        messages.push(next.value);
        nextSeq = next.value.seq + 1;
      }
    }
    const entries = messages.map((m) => entryOf(m, member)).filter((e) => e !== undefined);
    return done({ entries, nextSeq, complete, foreign: messages.length - entries.length });
  }

  async remove(storeSeq: number): Promise<Outcome<boolean, StoreRefusal>> {
    return inOurWords(await this.#api.deleteSeq(this.#names.streams.inbox, storeSeq));
  }

  async members(): Promise<Outcome<ReadonlyMap<LifecycleKey, number>, StoreRefusal>> {
    const { prefix, streams } = this.#names;
    const subjectsFilter = `${prefix}.dinbox.*.*.*`;
    const o = await this.#api.streamInfo(streams.inbox, { subjectsFilter });
    if (o.kind !== 'done') return inOurWords(o);
    const counts = new Map<LifecycleKey, number>();
    for (const [subject, count] of Object.entries(o.value.state.subjects ?? {})) {
      const l = parseMemberSubject(prefix, 'dinbox', subject);
      if (l !== undefined) counts.set(lifecycleKey(l), count);
    }
    return done(counts);
  }
}

/** `undefined` for what is no entry of this very member. */
export function entryOf(m: StoredMessage, member: LifecycleKey): StoredEntry | undefined {
  const id = m.header(HEADER.entry);
  const entry = id === undefined ? undefined : parseEntryId(id);
  const channel = m.header(HEADER.channel);
  const kind = m.header(HEADER.kind);
  const from = m.header(HEADER.from);
  if (id === undefined || entry?.member !== member) return undefined;
  if (channel === undefined || !isChannel(channel)) return undefined;
  if (kind !== 'durable' && kind !== 'mention') return undefined;
  if (from === undefined || parsePrincipal(from) === undefined) return undefined;
  const signature = m.header(HEADER.signature);
  return {
    entry,
    entryId: id,
    storeSeq: m.seq,
    channel,
    kind,
    from,
    body: m.body,
    storedAt: Date.parse(m.time),
    ...(signature === undefined ? {} : { signature }),
  };
}
