import type { JetStreamApi, Publisher, StoredMessage } from '@plane3/link';
import {
  done,
  HEADER,
  inboxCursorSubject,
  inboxFenceSubject,
  lifecycleKey,
  type Outcome,
  parseJson,
  parseMemberSubject,
  refused,
  type SpaceNames,
  unknown,
} from '@plane3/protocol';
import type { HeaderLines } from '../copy.ts';
import type { Answer, FanOutCursor } from '../model.ts';
import type { CopyStore, CopyToStore, ReadRefusal, ScannedCopy } from '../ports.ts';
import { toAnswer, toRead } from './answers.ts';

/** Messages and bytes of one batched read. */
const BATCH_MAX = 512;
const BATCH_BYTES_MAX = 8 * 1024 * 1024;
/** Cursor messages that are left behind before the older ones are purged. */
const CURSORS_KEPT_MAX = 256;

export interface NatsCopyStoreOptions {
  readonly api: JetStreamApi;
  readonly publisher: Publisher;
  readonly names: SpaceNames;
  readonly shard: number;
}

/** The member store as the stream `INBOX` of the vault account (wire contract section 4). */
export class NatsCopyStore implements CopyStore {
  private readonly api: JetStreamApi;
  private readonly publisher: Publisher;
  private readonly prefix: string;
  private readonly stream: string;
  private readonly fenceSubject: string;
  private readonly cursorSubject: string;
  private fence: HeaderLines = [];
  /** An age limit of the stream must not end a cursor that nobody had to move for a while. */
  private cursorTtl: HeaderLines = [];
  /** Above the limit at first, so that what earlier processes left goes with the first write. */
  private cursorsWritten = CURSORS_KEPT_MAX;

  constructor(o: NatsCopyStoreOptions) {
    this.api = o.api;
    this.publisher = o.publisher;
    this.prefix = o.names.prefix;
    this.stream = o.names.streams.inbox;
    this.fenceSubject = inboxFenceSubject(this.prefix, o.shard);
    this.cursorSubject = inboxCursorSubject(this.prefix, o.shard);
  }

  useFence(fenceSeq: number): void {
    this.fence = [
      [HEADER.expectSubjectSeq, String(fenceSeq)],
      [HEADER.expectSubject, this.fenceSubject],
    ];
  }

  put(copy: CopyToStore, onAnswer: (answer: Answer) => void): void {
    const subject = `${this.prefix}.dinbox.${copy.member}`;
    const headers = copy.headers.concat(this.fence);
    this.publisher.publishWith(subject, copy.body, headers, (o) =>
      onAnswer(toAnswer(o, this.stream)),
    );
  }

  async isCopy(storeSeq: number, entry: string): Promise<Outcome<boolean, ReadRefusal>> {
    const o = await this.api.atSeq(this.stream, storeSeq);
    if (o.kind !== 'done') return toRead(o);
    const m = o.value;
    if (m === undefined || m.header(HEADER.entry) !== entry) return done(false);
    return done(parseMemberSubject(this.prefix, 'dinbox', m.subject) !== undefined);
  }

  async readCursor(): Promise<Outcome<FanOutCursor | undefined, ReadRefusal>> {
    const o = await this.api.lastOf(this.stream, this.cursorSubject);
    if (o.kind !== 'done') return toRead(o);
    if (o.value === undefined) return done(undefined);
    const cursor = parseCursor(o.value.body);
    // A cursor that cannot be read is not "no cursor": going on would start somewhere else.
    return cursor === undefined
      ? refused('rejected', `unreadable cursor at ${o.value.seq}`)
      : done(cursor);
  }

  async writeCursor(
    cursor: FanOutCursor,
    note: Parameters<CopyStore['writeCursor']>[1],
  ): Promise<Answer> {
    const body = new TextEncoder().encode(JSON.stringify({ ...cursor, ...note }));
    const headers = this.fence.concat(this.cursorTtl);
    const o = await this.publisher.publish(this.cursorSubject, body, headers);
    const answer = toAnswer(o, this.stream);
    if (answer.kind === 'stored' && ++this.cursorsWritten > CURSORS_KEPT_MAX) {
      this.cursorsWritten = 0;
      // Only to keep the subject short; left undone it is done the next time.
      void this.api.purge(this.stream, { subject: this.cursorSubject, upToSeq: answer.storeSeq });
    }
    return answer;
  }

  async scan(
    what: { readonly storeFloor: number } | { readonly member: string },
    onCopy: (copy: ScannedCopy) => void,
  ): Promise<Outcome<{ readonly storeSeq: number }, ReadRefusal>> {
    const info = await this.api.streamInfo(this.stream);
    if (info.kind !== 'done') return toRead(info);
    const storeSeq = info.value.state.last_seq;
    // Refused by a stream that knows no such header, hence asked; a scan precedes every cursor.
    this.cursorTtl = info.value.config.allow_msg_ttl === true ? [[HEADER.ttl, 'never']] : [];
    const subject = `${this.prefix}.dinbox.${'member' in what ? what.member : '*.*.*'}`;
    let last = 'member' in what ? 0 : what.storeFloor;
    for (let complete = false; !complete && last < storeSeq; ) {
      const o = await this.api.batchOf(this.stream, subject, last + 1, BATCH_MAX, BATCH_BYTES_MAX);
      if (o.kind !== 'done') return toRead(o);
      for (const m of o.value.messages) {
        last = m.seq;
        const copy = this.copyOf(m);
        if (copy !== undefined) onCopy(copy);
      }
      complete = o.value.complete || o.value.messages.length === 0;
    }
    if (last < storeSeq) {
      // Batched reads are answered by any replica. The leader says whether one lags behind.
      const rest = await this.api.nextOf(this.stream, subject, last + 1);
      if (rest.kind !== 'done') return toRead(rest);
      if (rest.value !== undefined && rest.value.seq <= storeSeq)
        return unknown(`a replica lags: ${rest.value.seq} was not in the batch`);
    }
    return done({ storeSeq });
  }

  private copyOf(m: StoredMessage): ScannedCopy | undefined {
    const member = parseMemberSubject(this.prefix, 'dinbox', m.subject);
    const incarnation = m.header(HEADER.incarnation);
    const seq = Number(m.header(HEADER.seq));
    const generation = Number(m.header(HEADER.generation));
    const kind = m.header(HEADER.kind);
    if (member === undefined || incarnation === undefined) return undefined;
    if (!Number.isSafeInteger(seq) || !Number.isSafeInteger(generation)) return undefined;
    if (kind !== 'durable' && kind !== 'mention') return undefined;
    return {
      member: lifecycleKey(member),
      incarnation,
      seq,
      generation,
      kind,
      storeSeq: m.seq,
    };
  }
}

const isCount = (x: unknown): x is number => Number.isSafeInteger(x) && (x as number) >= 0;

/** Floors that are missing mean "from the beginning": slower, never wrong. */
function parseCursor(body: Uint8Array): FanOutCursor | undefined {
  const json = parseJson(body);
  if (!json.ok || typeof json.value !== 'object' || json.value === null) return undefined;
  const c = json.value as Partial<Record<keyof FanOutCursor, unknown>>;
  if (typeof c.incarnation !== 'string' || !isCount(c.seq)) return undefined;
  return {
    incarnation: c.incarnation,
    seq: c.seq,
    storeFloor: isCount(c.storeFloor) ? c.storeFloor : 0,
    deadFloor: isCount(c.deadFloor) ? c.deadFloor : 0,
  };
}
