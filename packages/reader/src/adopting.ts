import { done, type LifecycleKey, type Outcome } from '@plane3/protocol';
import { type Desk, type LateAcks, type Term, untilAnswered } from './desk.ts';
import type { Leaver } from './leaving.ts';
import type { AdoptedCopy, EntryFacts } from './model.ts';
import type { StoredCopy, StoreRefusal } from './ports.ts';
import type { Recaller } from './recalling.ts';
import { walk } from './walking.ts';

/** Members looked at together at start. */
const MEMBERS_AT_ONCE = 8;

/**
 * What an earlier daemon left in the hand-over stream. A copy whose entry has left the store is
 * removed; one that the durable's floor proves taken is confirmed; the rest is adopted, so that a
 * late ack counts, and what may not be read now is taken back.
 */
export async function adoptAll(
  term: Term,
  parts: {
    readonly leaver: Leaver;
    readonly recaller: Recaller;
    readonly late: LateAcks;
    readonly deskOf: (member: LifecycleKey) => Desk;
  },
  copies: readonly StoredCopy[],
): Promise<Outcome<void, StoreRefusal>> {
  const byMember = new Map<LifecycleKey, StoredCopy[]>();
  for (const c of copies) {
    const of = byMember.get(c.member);
    if (of === undefined) byMember.set(c.member, [c]);
    else of.push(c);
  }
  const waiting = [...byMember];
  let failed: Outcome<never, StoreRefusal> | undefined;
  const worker = async (): Promise<void> => {
    for (let next = waiting.pop(); next !== undefined && !failed; next = waiting.pop()) {
      const o = await adoptMember(term, parts, next[0], next[1]);
      if (o.kind !== 'done') failed = o;
    }
  };
  await Promise.all(Array.from({ length: MEMBERS_AT_ONCE }, worker));
  return failed ?? done(undefined);
}

type Parts = Parameters<typeof adoptAll>[1];

async function adoptMember(
  term: Term,
  parts: Parts,
  member: LifecycleKey,
  copies: readonly StoredCopy[],
): Promise<Outcome<void, StoreRefusal>> {
  const { handOver } = term.ports;
  const answered = <T, R extends string>(call: () => Promise<Outcome<T, R>>) =>
    untilAnswered(term, term.nowMs() + term.settings.retractWaitMs, call);
  const floor = await answered(() => handOver.floorOf(member));
  if (floor.kind !== 'done') return floor;
  const matched = await matchEntries(term, member, copies);
  if (matched.kind !== 'done') return matched;
  const adopted: AdoptedCopy[] = [];
  const desk = parts.deskOf(member);
  for (const copy of copies) {
    const facts = matched.value.get(copy.entryId);
    if (facts === undefined) {
      term.counters.orphansRemoved++;
      parts.leaver.dropCopy(desk, copy.copySeq);
    } else if (copy.copySeq <= (floor.value?.floor ?? 0)) {
      // The floor was read first: a copy that is stored now was not purged below it.
      const still = await answered(() => handOver.readCopy(copy.copySeq));
      if (still.kind !== 'done') return still;
      if (still.value === undefined) continue;
      term.counters.confirmedAtStart++;
      parts.leaver.leave({ facts, cause: 'confirmed', copySeq: copy.copySeq });
      term.tell(desk, { kind: 'late', facts, nowMs: term.nowMs() });
    } else adopted.push({ ...copy, facts });
  }
  return adoptNewest(term, parts, desk, adopted);
}

/** Of several copies of one entry the newest is kept; an ack of the others still counts. */
async function adoptNewest(
  term: Term,
  parts: Parts,
  desk: Desk,
  adopted: readonly AdoptedCopy[],
): Promise<Outcome<void, StoreRefusal>> {
  const newest = new Map<number, AdoptedCopy>();
  for (const c of [...adopted].sort((a, b) => a.copySeq - b.copySeq)) {
    const older = newest.get(c.facts.storeSeq);
    if (older !== undefined) {
      parts.late.remember(older.copySeq, older, term.nowMs());
      parts.leaver.dropCopy(desk, older.copySeq);
    }
    newest.set(c.facts.storeSeq, c);
  }
  term.counters.adopted += newest.size;
  term.tell(desk, { kind: 'adopt', nowMs: term.nowMs(), copies: [...newest.values()] });
  const o = await parts.recaller.recall(desk, (e) => term.judge(e).kind !== 'allow', 'not-allowed');
  return o.kind === 'done' ? done(undefined) : o;
}

async function matchEntries(
  term: Term,
  member: LifecycleKey,
  copies: readonly StoredCopy[],
): Promise<Outcome<ReadonlyMap<string, EntryFacts>, StoreRefusal>> {
  const wanted = new Set(copies.map((c) => c.entryId));
  const found = new Map<string, EntryFacts>();
  const o = await walk(term, member, ({ body: _, signature: __, ...facts }) => {
    if (wanted.has(facts.entryId)) found.set(facts.entryId, facts);
    return found.size === wanted.size ? 'stop' : 'go-on';
  });
  return o.kind === 'done' ? done(found) : o;
}
