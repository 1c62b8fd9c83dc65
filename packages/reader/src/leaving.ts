import type { LifecycleKey } from '@plane3/protocol';
import { add } from './counters.ts';
import type { Desk, Term } from './desk.ts';
import type { EntryFacts, LeaveCause } from './model.ts';

interface Departure {
  readonly facts: EntryFacts;
  readonly cause: LeaveCause;
  readonly copySeq: number | undefined;
}

/** Copies whose entries are gone are collected for this long, so that one purge takes many. */
const CLEAN_AFTER_MS = 50;
const PURGE_FROM_COPIES = 4;

/**
 * Takes entries out of the store: by sequence, never before the fan-out cursor has passed the
 * post, and only then the copy. A crash in between leaves a copy without an entry, which the next
 * start removes.
 */
export class Leaver {
  readonly #term: Term;
  /** Not yet allowed, or not answered: asked again when the cursor moves and at each sweep. */
  readonly #parked = new Map<number, Departure>();
  /** Parked, waiting or under way. */
  readonly #known = new Map<number, Departure>();
  readonly #waiting: Departure[] = [];
  readonly #toClean = new Set<Desk>();
  #open = 0;
  #cleaning = false;

  constructor(term: Term) {
    this.#term = term;
  }

  get parked(): number {
    return this.#parked.size;
  }

  /** Entries of a member that are on their way out although it has no desk. */
  of(member: LifecycleKey): EntryFacts[] {
    return [...this.#known.values()].map((d) => d.facts).filter((f) => f.entry.member === member);
  }

  leave(d: Departure): void {
    if (this.#known.has(d.facts.storeSeq)) return;
    this.#known.set(d.facts.storeSeq, d);
    const desk = this.#deskOf(d.facts.entry.member);
    if (d.copySeq !== undefined) desk?.leavingCopies.add(d.copySeq);
    if (this.#term.ports.progress.mayLeaveStore(d.facts)) this.#enqueue(d);
    else this.#parked.set(d.facts.storeSeq, d);
  }

  /** The fan-out cursor moved, or some time passed. */
  retry(): void {
    for (const [storeSeq, d] of this.#parked) {
      if (!this.#term.ports.progress.mayLeaveStore(d.facts)) continue;
      this.#parked.delete(storeSeq);
      this.#enqueue(d);
    }
  }

  /** The copy has no entry behind it any more; it goes soon. */
  dropCopy(desk: Desk, copySeq: number): void {
    desk.leavingCopies.delete(copySeq);
    desk.spentCopies.push(copySeq);
    this.#cleanSoon(desk);
  }

  #cleanSoon(desk: Desk): void {
    this.#toClean.add(desk);
    if (this.#cleaning) return;
    this.#cleaning = true;
    this.#term.ports.timers.after(CLEAN_AFTER_MS, () => {
      this.#cleaning = false;
      const desks = [...this.#toClean];
      this.#toClean.clear();
      for (const d of desks) void this.#clean(d);
    });
  }

  #enqueue(d: Departure): void {
    this.#waiting.push(d);
    while (this.#open < this.#term.settings.removalsOpenMax) {
      const next = this.#waiting.shift();
      if (next === undefined) return;
      void this.#remove(next);
    }
  }

  async #remove(d: Departure): Promise<void> {
    const { ports, counters } = this.#term;
    if (this.#term.ended) return;
    this.#open++;
    const o = await ports.store.remove(d.facts.storeSeq);
    this.#open--;
    if (this.#term.ended) return;
    if (o.kind === 'done') {
      this.#known.delete(d.facts.storeSeq);
      if (o.value && d.cause === 'confirmed') counters.confirmed++;
      else if (o.value) add(counters.disposed, d.cause);
      const desk = this.#deskOf(d.facts.entry.member);
      if (desk !== undefined) {
        this.#term.tell(desk, { kind: 'left', storeSeq: d.facts.storeSeq });
        if (d.copySeq !== undefined) this.dropCopy(desk, d.copySeq);
      } else if (d.copySeq !== undefined) void ports.handOver.removeCopy(d.copySeq);
    } else {
      counters.removalsFailed++;
      this.#parked.set(d.facts.storeSeq, d);
    }
    const next = this.#waiting.shift();
    if (next !== undefined) void this.#remove(next);
  }

  /**
   * One purge for the copies below the first one that is or may be wanted. What lies above waits
   * for the next cleaning and goes one by one if that cannot purge it either.
   */
  async #clean(desk: Desk): Promise<void> {
    const { handOver } = this.#term.ports;
    if (this.#term.ended) return;
    let wanted = Number.POSITIVE_INFINITY;
    for (const seq of desk.state.byCopy.keys()) wanted = Math.min(wanted, seq);
    for (const seq of desk.leavingCopies) wanted = Math.min(wanted, seq);
    for (const above of desk.openAbove.values()) wanted = Math.min(wanted, above + 1);
    const below = desk.spentCopies.filter((seq) => seq < wanted);
    const rest = desk.spentCopies.filter((seq) => seq >= wanted);
    const alone = below.length < PURGE_FROM_COPIES ? below : [];
    alone.push(...rest.splice(0, Math.min(rest.length, desk.leftOver)));
    desk.spentCopies = rest;
    desk.leftOver = rest.length;
    if (rest.length > 0) this.#cleanSoon(desk);
    // A failure here is made up for by the copies' age.
    if (below.length >= PURGE_FROM_COPIES)
      await handOver.purge(desk.member, Math.max(...below) + 1);
    await Promise.all(alone.map((seq) => handOver.removeCopy(seq)));
  }

  #deskOf(member: LifecycleKey): Desk | undefined {
    return this.#term.desks.get(member);
  }
}
