import { judgeRelease, limitsOf, type StoredEntry, settingsOf } from '@plane3/reader';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { INCARNATION, World } from './world.ts';

const NAMES = ['ann', 'bob'] as const;
const CHANNELS = ['a', 'b'] as const;
const SETTINGS = {
  windowEntries: 3,
  windowBytes: 100,
  pageEntries: 4,
  ackWaitMs: 1_000,
  sweepMs: 100,
};

type Name = (typeof NAMES)[number];
type Act =
  | { do: 'post'; m: Name; c: 'a' | 'b'; mention: boolean; bytes: number; told: boolean }
  | { do: 'attach'; m: Name; forMs: number }
  | { do: 'detach'; m: Name }
  | { do: 'ack'; m: Name; how: 'ack' | 'term' | 'nak' | 'forged' | 'unheard' }
  | { do: 'pull'; m: Name }
  | { do: 'rights'; m: Name; allow: ('a' | 'b')[]; told: boolean }
  | { do: 'leave'; m: Name; c: 'a' | 'b' }
  | { do: 'view'; current: boolean }
  | { do: 'fan-out'; passed: boolean }
  | { do: 'faults'; per: number }
  | { do: 'retract'; m: Name }
  | { do: 'kill' }
  | { do: 'wait'; ms: number };

const m = fc.constantFrom(...NAMES);
const c = fc.constantFrom(...CHANNELS);
const act: fc.Arbitrary<Act> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant('post' as const),
      m,
      c,
      mention: fc.boolean(),
      bytes: fc.integer({ min: 1, max: 60 }),
      told: fc.boolean(),
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant('attach' as const),
      m,
      forMs: fc.integer({ min: 50, max: 5_000 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('detach' as const), m }) },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('ack' as const),
      m,
      how: fc.constantFrom('ack' as const, 'ack', 'term', 'nak', 'forged', 'unheard'),
    }),
  },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('pull' as const), m }) },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('rights' as const),
      m,
      allow: fc.subarray([...CHANNELS]),
      told: fc.boolean(),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('leave' as const), m, c }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('view' as const), current: fc.boolean() }) },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constant('fan-out' as const), passed: fc.boolean() }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('faults' as const),
      per: fc.integer({ min: 0, max: 3 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('retract' as const), m }) },
  { weight: 1, arbitrary: fc.constant<Act>({ do: 'kill' }) },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('wait' as const),
      ms: fc.integer({ min: 1, max: 3_000 }),
    }),
  },
);

/** What really occurred over all runs: a law that nothing tries proves nothing. */
const HARD_CASES = [
  ...['redelivered', 'adopted', 'publishesRepeated', 'readsFailed'],
  ...['left', 'not-allowed', 'expired', 'detached'],
];
const occurred = new Map<string, number>();
const note = (w: World): void => {
  const { disposed, takenBack, acksIgnored, durables, ...plain } = w.reader.status().counters;
  for (const [k, n] of Object.entries({ ...plain, ...disposed, ...takenBack, ...acksIgnored }))
    occurred.set(k, (occurred.get(k) ?? 0) + n);
};

/** Holds the laws while a world is driven at random, and knows what really happened. */
class Auditor {
  readonly w = new World(SETTINGS);
  readonly keys = new Map<Name, string>();
  readonly generations = new Map<string, number>();
  /** Entry ids that their member truly confirmed, by whatever copy. */
  readonly confirmed = new Set<string>();
  readonly posted: StoredEntry[] = [];
  readonly pulled: { member: string; copySeq: number; storedNs: string; entryId: string }[] = [];
  readonly firstPublish = new Set<string>();
  /** Found inside of the reader's own calls, where a throw would be lost. */
  readonly violations: string[] = [];
  #faultEvery = 0;
  #calls = 0;

  constructor() {
    const { w } = this;
    for (const n of NAMES) {
      this.keys.set(n, w.member(n, [...CHANNELS]));
      for (const ch of CHANNELS) this.generations.set(`${n}|${ch}`, 1);
    }
    w.handOver.fault = () => this.#fault();
    w.store.fault = () => this.#fault();
    const publish = w.handOver.publish.bind(w.handOver);
    w.handOver.publish = (copy, onAnswer, fence) => {
      const id = `${copy.entry.entryId}.${copy.handOver}.${copy.incarnation}`;
      if (!this.firstPublish.has(id)) {
        this.firstPublish.add(id);
        if (this.verdict(copy.entry).kind !== 'allow') this.violations.push(`handed over ${id}`);
      }
      publish(copy, onAnswer, fence);
    };
    const remove = w.store.remove.bind(w.store);
    w.store.remove = (storeSeq) => {
      const e = w.store.entries.get(storeSeq);
      if (e !== undefined) {
        const v = this.verdict(e);
        const owed = v.kind !== 'refuse' || v.effect !== 'dispose';
        if (owed && !this.confirmed.has(e.entryId)) this.violations.push(`removed ${e.entryId}`);
      }
      return remove(storeSeq);
    };
  }

  #fault(): 'before' | 'after' | undefined {
    if (this.#faultEvery === 0 || ++this.#calls % (this.#faultEvery + 2) !== 0) return undefined;
    return this.#calls % 2 === 0 ? 'before' : 'after';
  }

  key = (n: Name): string => this.keys.get(n) ?? '';

  verdict(e: StoredEntry) {
    const { rights, memberships } = this.w;
    return judgeRelease(e, {
      rights: { current: rights.isCurrent(), row: rights.rowOf(e.entry.member) },
      membership: memberships.generationState({
        member: e.entry.member,
        channel: e.channel,
        generation: e.entry.generation,
      }),
      leaveBoundary: 'hard',
    });
  }

  async run(a: Act): Promise<void> {
    const { w } = this;
    const waiting: Promise<unknown>[] = [];
    switch (a.do) {
      case 'post': {
        const generation = this.generations.get(`${a.m}|${a.c}`) ?? 1;
        const kind = a.mention ? 'mention' : 'durable';
        const e = w.put(this.key(a.m), { channel: a.c, kind, generation, bytes: a.bytes });
        this.posted.push(e);
        if (a.told) w.reader.noteStored(e);
        break;
      }
      case 'attach':
        w.attachments.tell({ kind: 'present', member: this.key(a.m), forMs: a.forMs });
        break;
      case 'detach':
        w.attachments.tell({ kind: 'absent', member: this.key(a.m) });
        break;
      case 'pull':
        this.pulled.push(...w.handOver.of(this.key(a.m)));
        break;
      case 'ack':
        this.#ack(this.key(a.m), a.how);
        break;
      case 'rights':
        w.rights.set(this.key(a.m), a.allow);
        if (a.told) waiting.push(this.#narrowed(a.m));
        break;
      case 'leave':
        waiting.push(this.#leave(a.m, a.c));
        break;
      case 'view':
        w.rights.current = a.current;
        break;
      case 'fan-out':
        w.mayLeave = () => a.passed;
        w.reader.progressed();
        break;
      case 'faults':
        this.#faultEvery = a.per;
        break;
      case 'retract':
        waiting.push(w.reader.retract(this.key(a.m)));
        break;
      case 'kill':
        this.#faultEvery = 0;
        note(w);
        await w.boot();
        break;
      case 'wait':
        await w.time.advance(a.ms);
        break;
    }
    if (waiting.length > 0) await w.time.advance(500);
    else await w.time.settle();
  }

  #ack(member: string, how: Extract<Act, { do: 'ack' }>['how']): void {
    const i = this.pulled.findIndex((p) => p.member === member);
    const [copy] = i < 0 ? [] : this.pulled.splice(i, 1);
    if (copy === undefined) return;
    const full = { ...copy, handOver: 1, bytes: 0 };
    if (how === 'forged') {
      this.w.handOver.say({
        durable: `dlv_${member.replaceAll('.', '-')}`,
        seq: copy.copySeq,
        storedNs: `${copy.storedNs}1`,
        payload: 'ack',
        hasHeaders: false,
      });
      return;
    }
    if (how === 'ack' || how === 'unheard') this.confirmed.add(copy.entryId);
    // A refusal whose removal is not answered yet looks like a confirm to the next daemon.
    if (how === 'term' && this.#faultEvery > 0) this.confirmed.add(copy.entryId);
    this.w.handOver.ack(full, {
      payload: how === 'unheard' ? 'ack' : how,
      heard: how !== 'unheard',
    });
  }

  /** Once it is answered, nothing that may not be read lies within reach. */
  async #narrowed(n: Name): Promise<void> {
    const member = this.key(n);
    const { revision } = this.w.rights.rowOf(member) ?? { revision: 0 };
    await this.w.reader.rightsChanged(member, revision);
    if (this.w.rights.rowOf(member)?.revision !== revision) return;
    for (const copy of this.w.handOver.of(member)) {
      const e = this.posted.find((p) => p.entryId === copy.entryId);
      if (e !== undefined && this.w.store.entries.has(e.storeSeq) && !this.confirmed.has(e.entryId))
        expect(this.verdict(e).kind, `still within reach: ${e.entryId}`).not.toBe('refuse');
    }
  }

  async #leave(n: Name, channel: 'a' | 'b'): Promise<void> {
    const member = this.key(n);
    const generation = this.generations.get(`${n}|${channel}`) ?? 1;
    const interval = { incarnation: INCARNATION, joinCursor: 0 };
    this.w.memberships.set(member, channel, generation, {
      kind: 'closed',
      leaveCursor: 1_000_000,
      ...interval,
    });
    this.generations.set(`${n}|${channel}`, generation + 1);
    this.w.memberships.set(member, channel, generation + 1, { kind: 'open', ...interval });
    const o = await this.w.reader.dispose({ member, channel, generation, reason: 'left' });
    if (o.kind !== 'done') return;
    for (const copy of this.w.handOver.of(member)) {
      const e = this.posted.find((p) => p.entryId === copy.entryId);
      const meant = e?.channel === channel && e.entry.generation === generation;
      if (meant) expect(this.confirmed.has(copy.entryId), 'surfaces after a leave').toBe(true);
    }
  }

  bounds(): void {
    expect(this.violations).toEqual([]);
    const limits = limitsOf(settingsOf(SETTINGS));
    const s = this.w.reader.status();
    // A start adopts also what was confirmed and could not leave the store yet.
    expect(s.handedOver).toBeLessThanOrEqual(NAMES.length * limits.heldMax);
    expect(s.attached + s.lingering).toBeLessThanOrEqual(NAMES.length);
  }

  /** Everything is put right: then whatever is owed reaches its member and is confirmed. */
  async finish(): Promise<void> {
    const { w } = this;
    this.#faultEvery = 0;
    w.rights.current = true;
    w.mayLeave = () => true;
    await w.boot();
    for (const n of NAMES) {
      w.rights.set(this.key(n), [...CHANNELS]);
      void w.reader.rightsChanged(this.key(n));
    }
    for (let round = 0; round < 60 && w.store.entries.size > 0; round++) {
      for (const n of NAMES) {
        await w.attach(this.key(n), 60_000);
        for (const copy of w.handOver.of(this.key(n))) {
          this.confirmed.add(copy.entryId);
          w.handOver.ack(copy);
        }
      }
      await w.time.advance(500);
    }
    expect([...w.store.entries.values()].map((e) => e.entryId)).toEqual([]);
    await w.time.advance(20_000);
    note(w);
    expect(this.violations).toEqual([]);
    expect(w.handOver.copies.size).toBe(0);
    expect(w.reader.status()).toMatchObject({ handedOver: 0, leavingParked: 0, openPublishes: 0 });
  }
}

test('whatever happens: released only when allowed, gone only when confirmed or owed no more, bounded, and in the end all of it arrives', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(act, { minLength: 30, maxLength: 90, size: 'max' }), async (acts) => {
      const a = new Auditor();
      await a.w.boot();
      for (const x of acts) {
        await a.run(x);
        a.bounds();
      }
      await a.finish();
    }),
    { numRuns: 120 },
  );
  for (const hard of HARD_CASES) expect(occurred.get(hard) ?? 0, hard).toBeGreaterThan(0);
}, 60_000);

test("a daemon killed at any point raises an entry's hand-over count by at most one", async () => {
  const step = fc.oneof(
    fc.record({
      do: fc.constant('post' as const),
      m,
      c,
      mention: fc.constant(false),
      bytes: fc.constant(5),
      told: fc.boolean(),
    }),
    fc.record({ do: fc.constant('attach' as const), m, forMs: fc.constant(600_000) }),
    fc.record({ do: fc.constant('pull' as const), m }),
    fc.record({
      do: fc.constant('ack' as const),
      m,
      how: fc.constantFrom('ack' as const, 'unheard'),
    }),
    fc.constant<Act>({ do: 'kill' }),
  );
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { minLength: 10, maxLength: 60, size: 'max' }),
      async (acts) => {
        const a = new Auditor();
        await a.w.boot();
        for (const x of acts) {
          const before = new Map<string, number>();
          for (const h of a.w.handOver.history) before.set(h.entryId, h.handOver);
          await a.run(x);
          for (const h of a.w.handOver.history)
            expect(h.handOver).toBeLessThanOrEqual((before.get(h.entryId) ?? 0) + 1);
        }
        // Nothing was taken back here, so nothing was handed over twice at all.
        const counts = new Map<string, number>();
        for (const h of a.w.handOver.history)
          counts.set(h.entryId, (counts.get(h.entryId) ?? 0) + 1);
        expect([...counts.values()].filter((n) => n > 1)).toEqual([]);
      },
    ),
    { numRuns: 100 },
  );
}, 60_000);
