import type { LifecycleKey } from '@plane3/protocol';
import { type AckSeen, meaningOf } from './confirmation.ts';
import { add } from './counters.ts';
import { type Desk, type LateAcks, pause, repeatDelayMs, type Term } from './desk.ts';
import type { Leaver } from './leaving.ts';

/** Acks that came before the copies of an earlier daemon were adopted. */
const ACKS_BEFORE_READY_MAX = 65_536;

/** Brings each ack to the copy that it names, of a member that is there or of one that went. */
export class Listener {
  readonly #term: Term;
  readonly #leaver: Leaver;
  readonly #late: LateAcks;
  #before: AckSeen[] | undefined = [];

  constructor(term: Term, leaver: Leaver, late: LateAcks) {
    this.#term = term;
    this.#leaver = leaver;
    this.#late = late;
  }

  /** The copies of an earlier daemon are known now. */
  begin(): void {
    const before = this.#before ?? [];
    this.#before = undefined;
    for (const a of before) this.hear(a);
  }

  hear(ack: AckSeen): void {
    const term = this.#term;
    if (term.ended) return;
    if (this.#before !== undefined) {
      if (this.#before.length < ACKS_BEFORE_READY_MAX) this.#before.push(ack);
      return;
    }
    const meaning = meaningOf(ack);
    const member = this.#term.ports.confirmations.memberOf(ack.durable);
    if (meaning === 'foreign' || member === undefined) {
      add(this.#term.counters.acksIgnored, 'foreign');
      return;
    }
    if (meaning === 'busy') this.#term.counters.busy++;
    if (meaning !== 'confirm' && meaning !== 'refuse') return;
    const desk = this.#term.desks.get(member);
    const nowMs = this.#term.nowMs();
    if (desk?.state.byCopy.has(ack.seq) !== true && this.#late.get(ack.seq) !== undefined) {
      if (meaning === 'confirm') this.#lateAck(member, ack);
      return;
    }
    if (desk === undefined) {
      add(this.#term.counters.acksIgnored, 'unknown-copy');
      return;
    }
    const known = this.#term.ports.handOver.storedNs(ack.seq);
    if (known !== undefined)
      this.#term.tell(desk, { kind: 'learnt', copySeq: ack.seq, storedNs: known, nowMs });
    this.#term.tell(desk, {
      kind: 'ack',
      meaning,
      copySeq: ack.seq,
      storedNs: ack.storedNs,
      nowMs,
    });
  }

  #lateAck(member: LifecycleKey, ack: AckSeen): void {
    const copy = this.#late.get(ack.seq);
    if (copy === undefined) return;
    if (copy.facts.entry.member !== member || copy.storedNs !== ack.storedNs) {
      add(this.#term.counters.acksIgnored, 'another-copy');
      return;
    }
    this.#late.delete(ack.seq);
    this.#term.counters.pulledBefore++;
    const desk = this.#term.desks.get(member);
    if (desk !== undefined)
      this.#term.tell(desk, { kind: 'late', facts: copy.facts, nowMs: this.#term.nowMs() });
    else this.#leaver.leave({ facts: copy.facts, cause: 'confirmed', copySeq: undefined });
  }

  /** The stored time of an acked copy, asked for until it is known or the copy is let go. */
  async learn(desk: Desk, copySeq: number): Promise<void> {
    for (let n = 0; desk.state.byCopy.has(copySeq) && !this.#term.ended; n++) {
      const o = await this.#term.ports.handOver.readCopy(copySeq);
      if (o.kind === 'done') {
        const storedNs = o.value?.storedNs;
        this.#term.tell(desk, { kind: 'learnt', copySeq, storedNs, nowMs: this.#term.nowMs() });
        return;
      }
      await pause(this.#term, repeatDelayMs(n));
    }
  }
}
