import { done, type LifecycleKey, type Outcome, unknown } from '@plane3/protocol';
import { add } from './counters.ts';
import { pause, repeatDelayMs, type Term, untilAnswered } from './desk.ts';
import type { Leaver } from './leaving.ts';
import type { EntryFacts, StoredEntry } from './model.ts';
import type { StoreRefusal } from './ports.ts';
import type { Disposal, Verdict } from './release-policy.ts';

/** Pages of one walk; above it a store is no store of one member. */
const PAGES_MAX = 100_000;
/** Removals of one disposal that are open together. */
const REMOVALS_OPEN = 32;

/** Visits every entry of a member in store order, page by page: memory holds one page. */
export async function walk(
  term: Term,
  member: LifecycleKey,
  visit: (entry: StoredEntry) => 'go-on' | 'stop',
  onPage: () => Promise<void> = () => Promise.resolve(),
): Promise<Outcome<void, StoreRefusal>> {
  const { pageEntries, pageBytes, retractWaitMs } = term.settings;
  let from = 1;
  for (let page = 0; page < PAGES_MAX; page++) {
    const deadlineMs = term.nowMs() + retractWaitMs;
    const o = await untilAnswered(term, deadlineMs, () =>
      term.ports.store.read(member, from, { entries: pageEntries, bytes: pageBytes }),
    );
    if (term.ended) return unknown('the term has ended');
    if (o.kind !== 'done') return o;
    for (const e of o.value.entries) if (visit(e) === 'stop') return done(undefined);
    await onPage();
    if (o.value.complete) return done(undefined);
    from = o.value.nextSeq;
  }
  return unknown('the store of one member does not end');
}

/** What a member is owed, by one definition wherever it is shown. */
export interface PendingCounts {
  /** Owed, unconfirmed and not withheld; those handed over included. */
  readonly pending: number;
  readonly handedOver: number;
  /** Pending ones about which nobody can tell now, by why. */
  readonly deferred: Readonly<Record<string, number>>;
  /** Stored and invisible, by reason. */
  readonly withheld: Readonly<Record<string, number>>;
  /** Owed no more and not removed yet, by reason. */
  readonly disposing: Readonly<Record<string, number>>;
  /** Age of the oldest pending one; `undefined` without any. */
  readonly oldestAgeMs: number | undefined;
}

export async function countPending(
  term: Term,
  member: LifecycleKey,
): Promise<Outcome<PendingCounts, StoreRefusal>> {
  const counts = { pending: 0, handedOver: 0 };
  const deferred: Record<string, number> = {};
  const withheld: Record<string, number> = {};
  const disposing: Record<string, number> = {};
  let oldestAt: number | undefined;
  const walked = await walk(term, member, (e) => {
    const state = stateOf(term, e);
    if (state.kind === 'withheld') add(withheld, state.reason);
    else if (state.kind === 'disposing') add(disposing, state.reason);
    else if (state.kind !== 'confirmed') {
      counts.pending++;
      if (state.kind === 'handed-over') counts.handedOver++;
      if (state.kind === 'deferred') add(deferred, state.reason);
      oldestAt = Math.min(oldestAt ?? e.storedAt, e.storedAt);
    }
    return 'go-on';
  });
  if (walked.kind !== 'done') return walked;
  const oldestAgeMs =
    oldestAt === undefined ? undefined : Math.max(0, term.ports.clock.wallMs() - oldestAt);
  return done({ ...counts, deferred, withheld, disposing, oldestAgeMs });
}

export type EntryState =
  | { readonly kind: 'pending' | 'confirmed' }
  | { readonly kind: 'handed-over'; readonly handOver: number }
  | { readonly kind: 'withheld' | 'deferred' | 'disposing'; readonly reason: string };

/** The state of an entry that is in the store: what the machine holds, else the rule's answer. */
export function stateOf(term: Term, e: EntryFacts): EntryState {
  const desk = term.desks.get(e.entry.member);
  const held = desk?.state.held.get(e.storeSeq);
  if (held?.state === 'leaving')
    return held.cause === 'confirmed'
      ? { kind: 'confirmed' }
      : { kind: 'disposing', reason: held.cause };
  if (held !== undefined) return { kind: 'handed-over', handOver: held.handOver };
  if (desk?.state.refused.has(e.storeSeq) === true) return { kind: 'withheld', reason: 'refused' };
  return stateByRule(term.judge(e));
}

function stateByRule(v: Verdict): EntryState {
  if (v.kind === 'allow') return { kind: 'pending' };
  if (v.kind === 'cannot-tell') return { kind: 'deferred', reason: v.why };
  return { kind: v.effect === 'withhold' ? 'withheld' : 'disposing', reason: v.reason };
}

export interface Disposing {
  readonly member: LifecycleKey;
  /** Unset: every channel. */
  readonly channel?: string;
  /** Unset: every generation. */
  readonly generation?: number;
  readonly reason: Disposal;
}

export const isMeant =
  (d: Disposing) =>
  (e: EntryFacts): boolean =>
    e.entry.member === d.member &&
    (d.channel === undefined || d.channel === e.channel) &&
    (d.generation === undefined || d.generation === e.entry.generation);

/**
 * Takes the meant entries out of the store and answers how many. One that may not leave yet is
 * waited for, then left to the leaver: it is counted too, since nothing can release it any more.
 */
export async function disposeOf(
  term: Term,
  leaver: Leaver,
  d: Disposing,
): Promise<Outcome<number, StoreRefusal>> {
  const meant = isMeant(d);
  const deadlineMs = term.nowMs() + term.settings.disposeWaitMs;
  const early: EntryFacts[] = [];
  let count = 0;
  let page: EntryFacts[] = [];
  let failed: Outcome<never, StoreRefusal> | undefined;
  const flush = async (): Promise<void> => {
    const now = page;
    page = [];
    for (let i = 0; i < now.length && failed === undefined; i += REMOVALS_OPEN) {
      const some = now.slice(i, i + REMOVALS_OPEN);
      const answers = await Promise.all(some.map((f) => removeOne(term, f, d.reason)));
      for (const o of answers) {
        if (o.kind === 'done') count += o.value ? 1 : 0;
        else failed = o;
      }
    }
  };
  const walked = await walk(
    term,
    d.member,
    (e) => {
      if (meant(e)) (term.ports.progress.mayLeaveStore(e) ? page : early).push(bare(e));
      return failed === undefined ? 'go-on' : 'stop';
    },
    flush,
  );
  await flush();
  if (failed !== undefined) return failed;
  if (walked.kind !== 'done') return walked;
  for (let n = 0; early.some((f) => !term.ports.progress.mayLeaveStore(f)); n++) {
    if (term.ended || term.nowMs() >= deadlineMs) break;
    await pause(term, repeatDelayMs(Math.min(n, 2)));
  }
  for (const facts of early) leaver.leave({ facts, cause: d.reason, copySeq: undefined });
  return done(count + early.length);
}

async function removeOne(
  term: Term,
  facts: EntryFacts,
  reason: Disposal,
): Promise<Outcome<boolean, StoreRefusal>> {
  const deadlineMs = term.nowMs() + term.settings.disposeWaitMs;
  const o = await untilAnswered(term, deadlineMs, () => term.ports.store.remove(facts.storeSeq));
  if (o.kind !== 'done' || term.ended) return o;
  if (o.value) add(term.counters.disposed, reason);
  const desk = term.desks.get(facts.entry.member);
  if (desk !== undefined) term.tell(desk, { kind: 'left', storeSeq: facts.storeSeq });
  return o;
}

/** Without the body: what waits must not hold it. */
const bare = ({ body: _, signature: __, ...facts }: StoredEntry): EntryFacts => facts;
