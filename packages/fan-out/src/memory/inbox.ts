import { done, HEADER, type LifecycleKey, type Outcome, unknown } from '@plane3/protocol';
import type { Answer, FanOutCursor } from '../model.ts';
import type { CopyStore, CopyToStore, ReadRefusal, ScannedCopy } from '../ports.ts';

/**
 * What a broker may do to one operation. `lost-answer`: done, and nobody hears of it. `not-done`:
 * not done, and nobody hears of that either. `false-duplicate`: called a duplicate, not stored.
 */
export type Fault = 'none' | 'lost-answer' | 'not-done' | 'false-duplicate' | 'store-full';

export type Operation = 'put' | 'cursor' | 'bury' | 'read';

export interface MemoryCopy {
  readonly kind: 'copy';
  readonly storeSeq: number;
  readonly member: LifecycleKey;
  readonly headers: ReadonlyMap<string, string>;
  readonly body: Uint8Array;
}

type Stored =
  | MemoryCopy
  | { readonly kind: 'cursor'; readonly storeSeq: number; readonly cursor: FanOutCursor }
  | { readonly kind: 'fence'; readonly storeSeq: number };

/** The store itself, which outlives the daemons that write to it. */
export class MemoryInbox {
  stored: Stored[] = [];
  lastSeq = 0;
  /** Bytes one copy may have, headers not counted here. */
  bytesMax = 1 << 20;
  /** Asked for every operation. */
  fault: (operation: Operation) => Fault = () => 'none';
  fenceSeq = 0;
  private ids = new Map<string, number>();

  /** A new holder's fence; answers its sequence. */
  raiseFence(): number {
    this.fenceSeq = ++this.lastSeq;
    this.stored.push({ kind: 'fence', storeSeq: this.fenceSeq });
    return this.fenceSeq;
  }

  get copies(): MemoryCopy[] {
    return this.stored.filter((m) => m.kind === 'copy');
  }

  get cursor(): FanOutCursor | undefined {
    return this.stored.findLast((m) => m.kind === 'cursor')?.cursor;
  }

  /** The duplicate window passes. */
  forgetIds(): void {
    this.ids.clear();
  }

  remove(storeSeq: number): void {
    this.stored = this.stored.filter((m) => m.storeSeq !== storeSeq);
  }

  writeCopy(copy: CopyToStore, fenceSeq: number): Answer {
    const headers = new Map(copy.headers);
    const id = headers.get(HEADER.msgId) ?? '';
    const known = this.ids.get(id);
    if (known !== undefined) return { kind: 'stored', storeSeq: known, duplicate: true };
    if (fenceSeq !== this.fenceSeq) return fenceLost;
    if (copy.body.length > this.bytesMax)
      return { kind: 'refused', reason: 'too-large', detail: String(copy.body.length) };
    const storeSeq = ++this.lastSeq;
    this.ids.set(id, storeSeq);
    const { member, body } = copy;
    this.stored.push({ kind: 'copy', storeSeq, member, headers, body });
    return { kind: 'stored', storeSeq, duplicate: false };
  }

  writeCursor(cursor: FanOutCursor, fenceSeq: number): Answer {
    if (fenceSeq !== this.fenceSeq) return fenceLost;
    this.stored.push({ kind: 'cursor', storeSeq: ++this.lastSeq, cursor });
    return { kind: 'stored', storeSeq: this.lastSeq, duplicate: false };
  }
}

const fenceLost: Answer = { kind: 'refused', reason: 'fence-lost', detail: 'another fence' };

/** A write that may go wrong on the way; `write` is what the broker does if it gets there. */
export function faulty(fault: Fault, lastSeq: () => number, write: () => Answer): Answer {
  if (fault === 'not-done') return unknown('no answer');
  if (fault === 'false-duplicate') return { kind: 'stored', storeSeq: lastSeq(), duplicate: true };
  if (fault === 'store-full') return { kind: 'refused', reason: 'store-full', detail: 'full' };
  const answer = write();
  return fault === 'lost-answer' ? unknown('no answer') : answer;
}

/** One daemon's access to the store. */
export class MemoryCopyStore implements CopyStore {
  private readonly inbox: MemoryInbox;
  private fenceSeq = 0;

  constructor(inbox: MemoryInbox) {
    this.inbox = inbox;
  }

  useFence(fenceSeq: number): void {
    this.fenceSeq = fenceSeq;
  }

  put(copy: CopyToStore, onAnswer: (answer: Answer) => void): void {
    const { inbox, fenceSeq } = this;
    const answer = faulty(
      inbox.fault('put'),
      () => inbox.lastSeq,
      () => inbox.writeCopy(copy, fenceSeq),
    );
    queueMicrotask(() => onAnswer(answer));
  }

  async isCopy(storeSeq: number, entry: string): Promise<Outcome<boolean, ReadRefusal>> {
    if (this.inbox.fault('read') !== 'none') return unknown('no answer');
    const m = this.inbox.copies.find((c) => c.storeSeq === storeSeq);
    return done(m?.headers.get(HEADER.entry) === entry);
  }

  async readCursor(): Promise<Outcome<FanOutCursor | undefined, ReadRefusal>> {
    return this.inbox.fault('read') === 'none' ? done(this.inbox.cursor) : unknown('no answer');
  }

  async writeCursor(cursor: FanOutCursor): Promise<Answer> {
    const { inbox, fenceSeq } = this;
    return faulty(
      inbox.fault('cursor'),
      () => inbox.lastSeq,
      () => inbox.writeCursor(cursor, fenceSeq),
    );
  }

  async scan(
    what: { readonly storeFloor: number } | { readonly member: LifecycleKey },
    onCopy: (copy: ScannedCopy) => void,
  ): Promise<Outcome<{ readonly storeSeq: number }, ReadRefusal>> {
    if (this.inbox.fault('read') !== 'none') return unknown('no answer');
    const wanted = (c: MemoryCopy): boolean =>
      'member' in what ? c.member === what.member : c.storeSeq > what.storeFloor;
    for (const copy of this.inbox.copies) if (wanted(copy)) onCopy(scanned(copy));
    return done({ storeSeq: this.inbox.lastSeq });
  }
}

function scanned(copy: MemoryCopy): ScannedCopy {
  const number = (name: string): number => Number(copy.headers.get(name));
  return {
    member: copy.member,
    incarnation: copy.headers.get(HEADER.incarnation) ?? '',
    seq: number(HEADER.seq),
    generation: number(HEADER.generation),
    kind: copy.headers.get(HEADER.kind) === 'mention' ? 'mention' : 'durable',
    storeSeq: copy.storeSeq,
  };
}
