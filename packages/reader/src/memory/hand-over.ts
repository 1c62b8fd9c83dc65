import { done, type LifecycleKey, type Outcome, refused, unknown } from '@plane3/protocol';
import type { AckPayload, AckSeen } from '../confirmation.ts';
import type {
  Confirmations,
  CopyToHandOver,
  FloorSeen,
  HandOver,
  HandOverAnswer,
  StoredCopy,
  StoreRefusal,
} from '../ports.ts';

export interface MemoryCopy extends StoredCopy {
  readonly body: Uint8Array;
}

type Fault = 'before' | 'after' | undefined;

/**
 * A hand-over stream in memory, with what the real one does to us: a duplicate window that
 * survives purges, floors that purges move too, answers that get lost, acks that anybody shapes.
 */
export class MemoryHandOver implements HandOver {
  readonly copies = new Map<number, MemoryCopy>();
  /** Sequence of the fence message; a publish that expects another one is refused. */
  fence = 1;
  created = 'stream-1';
  fault: (call: string) => Fault = () => undefined;
  /** Every copy ever stored, for whoever audits. */
  readonly history: MemoryCopy[] = [];
  readonly #ids = new Map<string, number>();
  readonly #ended = new Map<LifecycleKey, Set<number>>();
  readonly #durables = new Set<LifecycleKey>();
  readonly #acks = new Set<(ack: AckSeen) => void>();
  readonly confirmations: Confirmations = {
    open: async (onAck) => {
      this.#acks.add(onAck);
      return done(() => this.#acks.delete(onAck));
    },
    memberOf: (durable) =>
      durable.startsWith('dlv_') ? durable.slice('dlv_'.length).replaceAll('-', '.') : undefined,
  };
  #expected = 0;
  #next = 1;
  #ns = 1_700_000_000_000_000_000n;

  useFence(fenceSeq: number): void {
    this.#expected = fenceSeq;
  }

  async open(): Promise<Outcome<readonly StoredCopy[], StoreRefusal>> {
    await Promise.resolve();
    if (this.fault('open') !== undefined) return unknown('lost');
    return done([...this.copies.values()]);
  }

  async close(): Promise<void> {}

  /** The same stream as another daemon reaches it: with a fence of its own. */
  forDaemon(): HandOver {
    let fence = 0;
    return {
      useFence: (fenceSeq) => {
        fence = fenceSeq;
      },
      open: () => this.open(),
      close: () => this.close(),
      publish: (c, onAnswer) => this.publish(c, onAnswer, fence),
      storedNs: (copySeq) => this.storedNs(copySeq),
      readCopy: (copySeq) => this.readCopy(copySeq),
      removeCopy: (copySeq) => this.removeCopy(copySeq),
      purge: (member, belowSeq) => this.purge(member, belowSeq),
      isEmpty: (member) => this.isEmpty(member),
      floorOf: (member) => this.floorOf(member),
      ensureDurable: (member) => this.ensureDurable(member),
      incarnation: () => this.incarnation(),
    };
  }

  publish(
    c: CopyToHandOver,
    onAnswer: (answer: HandOverAnswer) => void,
    expected = this.#expected,
  ): void {
    queueMicrotask(() => {
      const fault = this.fault('publish');
      if (fault === 'before') {
        onAnswer(unknown('lost'));
        return;
      }
      const answer = this.#store(c, expected);
      onAnswer(fault === 'after' ? unknown('lost') : answer);
    });
  }

  #store(c: CopyToHandOver, expected: number): HandOverAnswer {
    if (expected !== this.fence) return refused('fence-lost', `expected ${expected}`);
    const id = `${c.entry.entryId}.h${c.handOver}.${c.incarnation}`;
    const known = this.#ids.get(id);
    if (known !== undefined) return done({ copySeq: known, duplicate: true });
    const copySeq = this.#next++;
    this.#ids.set(id, copySeq);
    this.#ns += 1_001n;
    const copy: MemoryCopy = {
      member: c.entry.entry.member,
      copySeq,
      storedNs: this.#ns.toString(),
      entryId: c.entry.entryId,
      handOver: c.handOver,
      bytes: c.entry.body.length,
      body: c.entry.body,
    };
    this.copies.set(copySeq, copy);
    this.history.push(copy);
    return done({ copySeq, duplicate: false });
  }

  storedNs(_copySeq: number): string | undefined {
    return undefined;
  }

  readCopy(copySeq: number): Promise<Outcome<StoredCopy | undefined, StoreRefusal>> {
    return this.#call('readCopy', () => this.copies.get(copySeq));
  }

  removeCopy(copySeq: number): Promise<Outcome<boolean, StoreRefusal>> {
    return this.#call('removeCopy', () => this.#gone(copySeq));
  }

  purge(
    member: LifecycleKey,
    belowSeq = Number.POSITIVE_INFINITY,
  ): Promise<Outcome<number, StoreRefusal>> {
    return this.#call('purge', () => {
      const seqs = this.of(member).map((c) => c.copySeq);
      const gone = seqs.filter((s) => s < belowSeq);
      for (const s of gone) this.#gone(s);
      return gone.length;
    });
  }

  isEmpty(member: LifecycleKey): Promise<Outcome<boolean, StoreRefusal>> {
    return this.#call('isEmpty', () => this.of(member).length === 0);
  }

  floorOf(member: LifecycleKey): Promise<Outcome<FloorSeen | undefined, StoreRefusal>> {
    return this.#call('floorOf', () => {
      if (!this.#durables.has(member)) return undefined;
      const open = this.of(member).find((c) => !this.#endedOf(member).has(c.copySeq));
      return { floor: open === undefined ? this.#next - 1 : open.copySeq - 1 };
    });
  }

  ensureDurable(member: LifecycleKey): Promise<Outcome<'present' | 'made', StoreRefusal>> {
    return this.#call('ensureDurable', () => {
      if (this.#durables.has(member)) return 'present';
      this.#durables.add(member);
      return 'made';
    });
  }

  incarnation(): Promise<Outcome<string, StoreRefusal>> {
    return this.#call('incarnation', () => this.created);
  }

  // The other side: a member, or somebody who plays one.

  of(member: LifecycleKey): MemoryCopy[] {
    return [...this.copies.values()].filter((c) => c.member === member);
  }

  makeDurable(member: LifecycleKey): void {
    this.#durables.add(member);
  }

  /** `heard`: whether the daemon is there to hear it; the broker notes it in any case. */
  ack(
    copy: StoredCopy,
    o: { payload?: AckPayload; heard?: boolean; storedNs?: string } = {},
  ): void {
    const payload = o.payload ?? 'ack';
    if (payload === 'ack' || payload === 'term') this.#endedOf(copy.member).add(copy.copySeq);
    if (o.heard === false) return;
    this.say({
      durable: `dlv_${copy.member.replaceAll('.', '-')}`,
      seq: copy.copySeq,
      storedNs: o.storedNs ?? copy.storedNs,
      payload,
      hasHeaders: false,
    });
  }

  say(ack: AckSeen): void {
    for (const f of this.#acks) f(ack);
  }

  #gone(copySeq: number): boolean {
    return this.copies.delete(copySeq);
  }

  #endedOf(member: LifecycleKey): Set<number> {
    const known = this.#ended.get(member) ?? new Set();
    this.#ended.set(member, known);
    return known;
  }

  async #call<T>(name: string, run: () => T): Promise<Outcome<T, StoreRefusal>> {
    await Promise.resolve();
    const fault = this.fault(name);
    if (fault === 'before') return unknown('lost');
    const value = run();
    return fault === 'after' ? unknown('lost') : done(value);
  }
}
