import { done, type Outcome, unknown } from '@plane3/protocol';
import { add } from './counters.ts';
import { type Desk, type LateAcks, type Term, untilAnswered } from './desk.ts';
import { allResolved } from './issuing.ts';
import type { EntryFacts, HandedOver } from './model.ts';

export type TakenBackCause = 'not-allowed' | 'expired' | 'detached' | 'asked' | 'stopped';

/** Empty read-backs in a row that may fail before a purge is repeated. */
const PURGE_ROUNDS_MAX = 3;

/**
 * Retraction: stop issuing for the member; resolve every outstanding publish; take the copies
 * away; read back that they are gone; only then answer. What the member had pulled before may
 * still be confirmed, so the copies are remembered for a while.
 */
export class Recaller {
  readonly #term: Term;
  readonly #late: LateAcks;

  constructor(term: Term, late: LateAcks) {
    this.#term = term;
    this.#late = late;
  }

  /** How many copies were taken back. `unknown`: some may still lie there, and the sweep goes on. */
  recall(
    desk: Desk,
    select: (facts: EntryFacts) => boolean,
    cause: TakenBackCause,
    waitMs = this.#term.settings.retractWaitMs,
  ): Promise<Outcome<number, never>> {
    const run = (): Promise<Outcome<number, never>> => this.#run(desk, select, cause, waitMs);
    // Held at once, not when its turn comes: nothing is issued from the moment it was asked for.
    this.#term.tell(desk, { kind: 'hold' });
    const answer = desk.recalls.then(run).finally(() => {
      this.#term.tell(desk, { kind: 'resume' });
    });
    desk.recalls = answer;
    return answer;
  }

  async #run(
    desk: Desk,
    select: (facts: EntryFacts) => boolean,
    cause: TakenBackCause,
    waitMs: number,
  ): Promise<Outcome<number, never>> {
    const term = this.#term;
    const deadlineMs = term.nowMs() + waitMs;
    const late = (why: string): Outcome<number, never> => {
      desk.recallOwed = true;
      term.emit({ kind: 'retraction-late', member: desk.member, cause: why });
      return unknown(why);
    };
    if (!(await allResolved(term, desk, deadlineMs)))
      return term.ended ? unknown('the term has ended') : late('a publish is unanswered');
    const targets = handedOver(desk).filter((h) => select(h.facts));
    if (targets.length === 0) {
      desk.recallOwed = false;
      return done(0);
    }
    const times = await this.#times(targets, deadlineMs);
    const gone =
      targets.length === desk.state.openEntries
        ? await this.#purge(desk, deadlineMs)
        : await this.#removeEach(targets, deadlineMs);
    if (term.ended) return unknown('the term has ended');
    if (gone.kind !== 'done') return late(gone.kind === 'unknown' ? gone.cause : gone.reason);
    const nowMs = term.nowMs();
    for (const { copySeq, facts, handOver } of targets) {
      const storedNs = times.get(copySeq);
      if (storedNs !== undefined)
        this.#late.remember(copySeq, { facts, storedNs, handOver }, nowMs);
    }
    const storeSeqs = targets.map((h) => h.facts.storeSeq);
    term.tell(desk, { kind: 'taken-back', storeSeqs, nowMs });
    add(term.counters.takenBack, cause, targets.length);
    desk.recallOwed = false;
    return done(targets.length);
  }

  /** Stored times, learnt before the copies go. */
  async #times(targets: readonly HandedOver[], deadlineMs: number): Promise<Map<number, string>> {
    const { handOver } = this.#term.ports;
    const times = new Map<number, string>();
    await Promise.all(
      targets.map(async ({ copySeq, storedNs }) => {
        const known = storedNs ?? handOver.storedNs(copySeq);
        if (known !== undefined) times.set(copySeq, known);
        else {
          const o = await untilAnswered(this.#term, deadlineMs, () => handOver.readCopy(copySeq));
          if (o.kind === 'done' && o.value !== undefined) times.set(copySeq, o.value.storedNs);
        }
      }),
    );
    return times;
  }

  async #purge(desk: Desk, deadlineMs: number): Promise<Outcome<void, string>> {
    const { handOver } = this.#term.ports;
    for (let round = 0; round < PURGE_ROUNDS_MAX; round++) {
      const purged = await untilAnswered(this.#term, deadlineMs, () => handOver.purge(desk.member));
      if (purged.kind !== 'done') return purged;
      const empty = await untilAnswered(this.#term, deadlineMs, () =>
        handOver.isEmpty(desk.member),
      );
      if (empty.kind !== 'done') return empty;
      if (empty.value) {
        desk.spentCopies = [];
        return done(undefined);
      }
    }
    return unknown('the hand-over subject is not empty after a purge');
  }

  async #removeEach(
    targets: readonly HandedOver[],
    deadlineMs: number,
  ): Promise<Outcome<void, string>> {
    const { handOver } = this.#term.ports;
    const answers = await Promise.all(
      targets.map((h) =>
        untilAnswered(this.#term, deadlineMs, () => handOver.removeCopy(h.copySeq)),
      ),
    );
    for (const o of answers) if (o.kind !== 'done') return o;
    return done(undefined);
  }
}

function handedOver(desk: Desk): HandedOver[] {
  const out: HandedOver[] = [];
  for (const h of desk.state.held.values()) if (h.state === 'handed-over') out.push(h);
  return out;
}
