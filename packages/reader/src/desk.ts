import type { LifecycleKey, Outcome } from '@plane3/protocol';
import type { Counters } from './counters.ts';
import type { EntryFacts, Event, Judge, MemberState } from './model.ts';
import type { ReaderPorts } from './ports.ts';
import type { ReaderSettings } from './settings.ts';

/** One attached or lingering member: its machine and what the runtime keeps beside it. */
export interface Desk {
  readonly member: LifecycleKey;
  readonly state: MemberState;
  /** Retractions of one member run one after the other; the answer of the last one. */
  recalls: Promise<Outcome<number, never>>;
  /** A retraction did not come through: the sweep asks again. */
  recallOwed: boolean;
  /** Called when no publish of this member is unanswered. */
  readonly resolved: Set<() => void>;
  /** Copies of entries that are on their way out of the store. */
  readonly leavingCopies: Set<number>;
  /** By store sequence of a copy whose publish is open: it lies above this copy sequence. */
  readonly openAbove: Map<number, number>;
  /** Copies without an entry any more, and those of them that one cleaning left over. */
  spentCopies: number[];
  leftOver: number;
}

export type ReaderEvent =
  | { readonly kind: 'fence-lost'; readonly detail: string }
  /** The hand-over stream is another one: copies in it are gone, entries are not. */
  | { readonly kind: 'hand-over-recreated'; readonly detail: string }
  | { readonly kind: 'durable-repaired'; readonly member: LifecycleKey; readonly how: string }
  | { readonly kind: 'retraction-late'; readonly member: LifecycleKey; readonly cause: string };

/** What the parts of one term of the reader share. A term ends once and never begins again. */
export interface Term {
  readonly ports: ReaderPorts;
  readonly settings: ReaderSettings;
  readonly counters: Counters;
  readonly incarnation: string;
  readonly desks: Map<LifecycleKey, Desk>;
  readonly judge: Judge;
  /** Nothing may be written or answered any more. */
  readonly ended: boolean;
  nowMs(): number;
  tell(desk: Desk, event: Event): void;
  emit(event: ReaderEvent): void;
  endAtOnce(event: ReaderEvent): void;
}

/** Resolves after `ms`. */
export const pause = (term: Pick<Term, 'ports'>, ms: number): Promise<void> =>
  new Promise((resolve) => {
    term.ports.timers.after(ms, resolve);
  });

/** First delay and ceiling of calls that are repeated until they are answered. */
const REPEAT_FIRST_MS = 50;
const REPEAT_CEILING_MS = 2_000;
export const repeatDelayMs = (attempt: number): number =>
  Math.min(REPEAT_FIRST_MS * 2 ** Math.min(attempt, 10), REPEAT_CEILING_MS);

/** Repeats a call until it is answered, the time is over or the term has ended. */
export async function untilAnswered<T, R extends string>(
  term: Term,
  deadlineMs: number,
  call: () => Promise<Outcome<T, R>>,
): Promise<Outcome<T, R>> {
  for (let attempt = 0; ; attempt++) {
    const o = await call();
    if (o.kind === 'done' || term.ended) return o;
    const waitMs = repeatDelayMs(attempt);
    if (term.nowMs() + waitMs > deadlineMs) return o;
    await pause(term, waitMs);
  }
}

export interface LateCopy {
  readonly facts: EntryFacts;
  readonly storedNs: string;
  readonly handOver: number;
}

/** Copies that were taken back, for acks that come late: bounded in time and number. */
export class LateAcks {
  readonly #byCopy = new Map<number, LateCopy & { readonly untilMs: number }>();
  readonly #byMember = new Map<LifecycleKey, Set<number>>();
  readonly #maxEntries: number;
  readonly #forMs: number;

  constructor(maxEntries: number, forMs: number) {
    this.#maxEntries = maxEntries;
    this.#forMs = forMs;
  }

  remember(copySeq: number, copy: LateCopy, nowMs: number): void {
    const { facts, storedNs, handOver } = copy;
    this.#byCopy.set(copySeq, { facts, storedNs, handOver, untilMs: nowMs + this.#forMs });
    const { member } = facts.entry;
    const of = this.#byMember.get(member);
    if (of === undefined) this.#byMember.set(member, new Set([copySeq]));
    else of.add(copySeq);
    this.forget(nowMs);
  }

  get(copySeq: number): LateCopy | undefined {
    return this.#byCopy.get(copySeq);
  }

  /** How often the member's entries were handed over, by store sequence. */
  handOversOf(member: LifecycleKey): ReadonlyMap<number, number> {
    const counts = new Map<number, number>();
    for (const copySeq of this.#byMember.get(member) ?? []) {
      const c = this.#byCopy.get(copySeq);
      if (c === undefined) continue;
      const { storeSeq } = c.facts;
      counts.set(storeSeq, Math.max(counts.get(storeSeq) ?? 0, c.handOver));
    }
    return counts;
  }

  delete(copySeq: number): void {
    const member = this.#byCopy.get(copySeq)?.facts.entry.member;
    this.#byCopy.delete(copySeq);
    if (member === undefined) return;
    const of = this.#byMember.get(member);
    of?.delete(copySeq);
    if (of?.size === 0) this.#byMember.delete(member);
  }

  forget(nowMs: number): void {
    for (const [copySeq, c] of this.#byCopy) {
      if (c.untilMs > nowMs && this.#byCopy.size <= this.#maxEntries) return;
      this.delete(copySeq);
    }
  }
}
