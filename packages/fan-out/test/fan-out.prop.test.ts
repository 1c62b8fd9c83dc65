import type { FanOut } from '@plane3/fan-out';
import type { Fault } from '@plane3/fan-out/memory';
import { HEADER, slotOf } from '@plane3/protocol';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { breathe, key, peer, subjectOf, World } from './world.ts';

/**
 * The reference model knows the stream and the rows, nothing of cursors, ids or answers: a copy is
 * owed for each post to each row whose interval holds it, or to whom a live channel's post names.
 */
const NAMES = ['alice', 'bob', 'carol'] as const;
const CHANNELS = ['team', 'ops', 'live'] as const;
const name = fc.constantFrom(...NAMES);

type Step =
  | { do: 'post'; from: string; channel: string; mentions: string[] }
  | { do: 'garbage'; from: string }
  | { do: 'join'; who: string; channel: string }
  | { do: 'leave'; who: string; channel: string }
  | { do: 'breathe' }
  | { do: 'pass'; ms: number }
  | { do: 'crash'; window: boolean }
  | { do: 'stop' }
  | { do: 'break' }
  | { do: 'stale'; current: boolean };

const steps: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant('post' as const),
      from: name,
      channel: fc.constantFrom(...CHANNELS),
      mentions: fc.array(name, { maxLength: 2 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('garbage' as const), from: name }) },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constantFrom('join' as const, 'leave' as const),
      who: name,
      channel: fc.constantFrom('team', 'ops'),
    }),
  },
  { weight: 4, arbitrary: fc.constant({ do: 'breathe' as const }) },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('pass' as const),
      ms: fc.integer({ max: 500, min: 1 }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('crash' as const), window: fc.boolean() }) },
  { weight: 1, arbitrary: fc.constantFrom({ do: 'stop' as const }, { do: 'break' as const }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('stale' as const), current: fc.boolean() }) },
);

/** Faults of single operations, in the order in which they are met; afterwards none. */
const faults = fc.array(
  fc.oneof(
    { weight: 4, arbitrary: fc.constant<Fault>('none') },
    {
      weight: 3,
      arbitrary: fc.constantFrom<Fault>('lost-answer', 'not-done', 'false-duplicate', 'store-full'),
    },
  ),
  { maxLength: 40 },
);

/** Like SIGKILL: no answer reaches it and it asks for nothing more. */
const kill = (daemon: FanOut): void => {
  const term = daemon['term'];
  if (term !== undefined) term.over = true;
};

const counters = (daemon: FanOut) => daemon.status().counters;

class Model {
  readonly w = new World();
  daemon: FanOut | undefined;
  generation = 0;
  readonly owed = new Set<string>();
  readonly seen = { unknown: 0, falseDuplicates: 0, found: 0 };
  private readonly putFaults: Fault[];
  private readonly otherFaults: Fault[];
  private readonly daemons: FanOut[] = [];

  constructor(putFaults: readonly Fault[], otherFaults: readonly Fault[]) {
    this.putFaults = [...putFaults];
    this.otherFaults = [...otherFaults];
    const { w } = this;
    for (const n of ['bob', 'carol'])
      for (const c of ['team', 'ops']) w.directory.join(peer(n), c, 0, ++this.generation);
    w.directory.classes.set('live', 'live');
    for (const n of ['alice', 'bob']) w.directory.grant(peer(n), 'live');
    for (const n of NAMES) w.directory.names.set(n, peer(n));
    w.inbox.fault = (op) => {
      const fault = (op === 'put' ? this.putFaults : this.otherFaults).shift() ?? 'none';
      // A cursor has no id, and a read is answered or not.
      if (op === 'cursor' && fault === 'false-duplicate') return 'none';
      return op === 'read' && fault !== 'not-done' ? 'none' : fault;
    };
    w.dead.fault = () => {
      const fault = this.otherFaults.shift() ?? 'none';
      return fault === 'lost-answer' || fault === 'not-done' ? fault : 'none';
    };
  }

  async start(): Promise<void> {
    this.daemon = await this.w.started({ settings: { limits: { copiesOpenMax: 3 } } });
    this.daemons.push(this.daemon);
  }

  post(from: string, channel: string, mentions: readonly string[]): void {
    const { w, owed } = this;
    const seq = w.post({ from, channel, mentions });
    if (channel === 'live') {
      for (const m of new Set(mentions))
        if (m !== from && m !== 'carol') owed.add(`${seq}>${key(m)}/0`);
      return;
    }
    for (const r of w.directory.membersOf(channel, seq))
      if (r.member !== key(from)) owed.add(`${seq}>${r.member}/${r.generation}`);
  }

  async step(s: Step): Promise<void> {
    const { w } = this;
    const open = (who: string, channel: string) =>
      w.directory.rows.find(
        (r) => r.member === key(who) && r.channel === channel && r.leaveCursor === undefined,
      );
    if (s.do === 'post') this.post(s.from, s.channel, s.mentions);
    else if (s.do === 'garbage') w.chat.publish(subjectOf(s.from, 'team'), new Uint8Array([1]));
    else if (s.do === 'join' && open(s.who, s.channel) === undefined)
      w.directory.join(peer(s.who), s.channel, w.chat.lastSeq, ++this.generation);
    else if (s.do === 'leave') {
      const row = open(s.who, s.channel);
      if (row !== undefined) row.leaveCursor = w.chat.lastSeq;
    } else if (s.do === 'breathe') await breathe();
    else if (s.do === 'pass') w.time.advance(s.ms);
    else if (s.do === 'crash') {
      if (s.window) {
        // One that lives on beyond the window may bury a post again: nothing fences that store.
        for (const old of this.daemons) kill(old);
        w.inbox.forgetIds();
        w.dead.forgetIds();
      }
      await this.start(); // one that was not killed runs into the fence
    } else if (s.do === 'stop') {
      const stopping = this.daemon?.stop();
      await breathe();
      w.time.advance(500);
      await stopping;
      await this.start();
    } else if (s.do === 'break') w.chat.breakRun('consumer deleted');
    else if (s.do === 'stale') w.directory.current = s.current;
    this.checkCursor();
  }

  /** The cursor never names a post of which a copy is not in the store. */
  checkCursor(): void {
    const { w, owed } = this;
    const cursor = w.inbox.cursor?.seq ?? 0;
    const stored = new Set(w.copies());
    const missing = [...owed].filter((o) => Number(o.split('>')[0]) <= cursor && !stored.has(o));
    expect(missing).toEqual([]);
  }

  async finish(): Promise<void> {
    const { w, owed } = this;
    w.directory.current = true;
    this.putFaults.length = 0;
    this.otherFaults.length = 0;
    expect(await w.settle(this.daemon as FanOut)).toBe(true);
    this.checkCursor();
    expect(w.copies().sort()).toEqual([...owed].sort());
    const slots = w.inbox.copies.map((c) =>
      slotOf({
        member: c.member,
        incarnation: c.headers.get(HEADER.incarnation) ?? '',
        seq: Number(c.headers.get(HEADER.seq)),
      }),
    );
    expect(new Set(slots).size).toBe(slots.length);
    const buried = w.dead.burials.map((b) => b.post.seq);
    expect(new Set(buried).size).toBe(buried.length);
    for (const { recoveries, falseDuplicates, found } of this.daemons.map(counters)) {
      this.seen.unknown += recoveries;
      this.seen.falseDuplicates += falseDuplicates;
      this.seen.found += found;
    }
  }
}

test('each owed copy is in the store exactly once, none is there for others, and the cursor never stands beyond an unproved one', async () => {
  const sometimes = { unknown: 0, falseDuplicates: 0, found: 0 };
  await fc.assert(
    fc.asyncProperty(
      fc.array(steps, { minLength: 20, maxLength: 60 }),
      faults,
      faults,
      async (todo, put, other) => {
        const model = new Model(put, other);
        await model.start();
        for (const s of todo) await model.step(s);
        await model.finish();
        sometimes.unknown += model.seen.unknown;
        sometimes.falseDuplicates += model.seen.falseDuplicates;
        sometimes.found += model.seen.found;
      },
    ),
    { numRuns: 150 },
  );
  // The hard cases really occurred; about ten times as often as asked for here.
  expect(sometimes.unknown).toBeGreaterThan(10);
  expect(sometimes.falseDuplicates).toBeGreaterThan(10);
  expect(sometimes.found).toBeGreaterThan(10);
}, 60_000);
