import { type Desk, repeatDelayMs, type Term } from './desk.ts';
import type { StoredEntry } from './model.ts';
import type { HandOverAnswer } from './ports.ts';

/**
 * Publishes copies and sees each through to an answer. A publish nobody can answer for is
 * repeated under the same id: that either proves it or burns the id against its late arrival.
 */
export class Issuer {
  readonly #term: Term;
  /** Called when the window of all members has room again. */
  readonly #onRoom: () => void;
  #open = 0;
  #highestCopySeq = 0;

  constructor(term: Term, onRoom: () => void) {
    this.#term = term;
    this.#onRoom = onRoom;
  }

  get open(): number {
    return this.#open;
  }

  get hasRoom(): boolean {
    return this.#open < this.#term.settings.publishesOpenMax;
  }

  publish(desk: Desk, entry: StoredEntry, handOver: number): void {
    this.#open++;
    // The broker numbers upwards, and this copy is not stored yet.
    desk.openAbove.set(entry.storeSeq, this.#highestCopySeq);
    this.#attempt(desk, entry, handOver, 0);
  }

  #attempt(desk: Desk, entry: StoredEntry, handOver: number, attempt: number): void {
    const { ports, incarnation } = this.#term;
    ports.handOver.publish({ entry, handOver, incarnation }, (answer) => {
      if (!this.#term.ended) this.#answered(desk, entry, handOver, attempt, answer);
    });
  }

  #answered(
    desk: Desk,
    entry: StoredEntry,
    handOver: number,
    attempt: number,
    answer: HandOverAnswer,
  ): void {
    if (answer.kind === 'unknown') {
      this.#repeat(desk, entry, handOver, attempt);
    } else if (answer.kind === 'refused') {
      if (answer.reason === 'fence-lost') {
        this.#term.endAtOnce({ kind: 'fence-lost', detail: answer.detail });
        return;
      }
      this.#term.counters.publishesRefused++;
      this.#close(desk, {
        kind: 'not-published',
        storeSeq: entry.storeSeq,
        nowMs: this.#term.nowMs(),
      });
    } else if (answer.value.duplicate) {
      void this.#proveDuplicate(desk, entry, handOver, attempt, answer.value.copySeq);
    } else this.#stored(desk, entry, handOver, answer.value.copySeq);
  }

  #repeat(desk: Desk, entry: StoredEntry, handOver: number, attempt: number): void {
    this.#term.counters.publishesRepeated++;
    this.#term.ports.timers.after(repeatDelayMs(attempt), () => {
      if (!this.#term.ended) this.#attempt(desk, entry, handOver, attempt + 1);
    });
  }

  /** A duplicate counts only if it reads back as this very copy. */
  async #proveDuplicate(
    desk: Desk,
    entry: StoredEntry,
    handOver: number,
    attempt: number,
    copySeq: number,
  ): Promise<void> {
    const o = await this.#term.ports.handOver.readCopy(copySeq);
    if (this.#term.ended) return;
    if (o.kind !== 'done') {
      this.#repeat(desk, entry, handOver, attempt);
      return;
    }
    const c = o.value;
    if (c?.entryId === entry.entryId && c.handOver === handOver && c.member === desk.member) {
      this.#stored(desk, entry, handOver, copySeq);
      return;
    }
    this.#term.counters.burnt++;
    this.#close(desk, { kind: 'burnt', storeSeq: entry.storeSeq });
  }

  #stored(desk: Desk, entry: StoredEntry, handOver: number, copySeq: number): void {
    const { counters, ports } = this.#term;
    this.#highestCopySeq = Math.max(this.#highestCopySeq, copySeq);
    counters.handedOver++;
    if (handOver > 1) counters.redelivered++;
    this.#close(desk, {
      kind: 'published',
      storeSeq: entry.storeSeq,
      copySeq,
      storedNs: ports.handOver.storedNs(copySeq),
      nowMs: this.#term.nowMs(),
    });
  }

  #close(desk: Desk, event: Parameters<Term['tell']>[1]): void {
    this.#open--;
    if ('storeSeq' in event) desk.openAbove.delete(event.storeSeq);
    this.#term.tell(desk, event);
    if (desk.state.issuing === 0) for (const f of [...desk.resolved]) f();
    this.#onRoom();
  }
}

/** Whether every publish of the member was answered before the deadline. */
export async function allResolved(term: Term, desk: Desk, deadlineMs: number): Promise<boolean> {
  while (desk.state.issuing > 0 && !term.ended) {
    const leftMs = deadlineMs - term.nowMs();
    if (leftMs <= 0) return false;
    let wake: () => void = () => {};
    const resolved = new Promise<void>((ok) => {
      wake = ok;
    });
    desk.resolved.add(wake);
    const cancel = term.ports.timers.after(leftMs, wake);
    await resolved;
    cancel();
    desk.resolved.delete(wake);
  }
  return !term.ended;
}
