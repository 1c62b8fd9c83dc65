import fc from 'fast-check';
import { expect, it } from 'vitest';
import { World } from './world.ts';
import type { Mode } from './world-parts.ts';

const MODES: readonly Mode[] = [
  ...Array<Mode>(12).fill('ok'),
  'lost',
  'landed-unknown',
  'late',
  'refused',
];

const WEIGHTS = {
  post: 5,
  decide: 6,
  join: 4,
  leave: 2,
  retire: 1,
  resolve: 30,
  bound: 1,
  echo: 6,
  late: 1,
  rival: 1,
  confirm: 2,
  cursor: 3,
  crash: 1,
} as const;
type Op = keyof typeof WEIGHTS;
const OPS = Object.entries(WEIGHTS).flatMap(([op, n]) => Array<Op>(n).fill(op as Op));

const command = fc.record({
  op: fc.constantFrom(...OPS),
  a: fc.nat(63),
  b: fc.nat(63),
  mode: fc.constantFrom(...MODES),
});
type Command = typeof command extends fc.Arbitrary<infer T> ? T : never;

function run(w: World, c: Command): void {
  const member = w.members[c.a % w.members.length] as string;
  const channel = w.channels[c.b % w.channels.length] as string;
  switch (c.op) {
    case 'post':
      w.post(channel);
      return;
    case 'decide':
      w.decide();
      return;
    case 'join': {
      // A lifecycle that was retired is refused by its rights; here it comes back without a claim.
      const back = c.a >> 2;
      const claims = back % 2 === 1 && !w.retired.has(member);
      w.ask('join', member, channel, claims ? { joinCursor: w.posts.length + 1 - (back % 5) } : {});
      return;
    }
    case 'leave':
      w.ask('leave', member, channel);
      return;
    case 'retire':
      w.ask('retire', member, channel);
      return;
    case 'resolve':
      w.resolve(c.a, c.mode);
      return;
    case 'bound':
      w.bound(c.a);
      return;
    case 'echo':
      w.echo();
      return;
    case 'late':
      w.landLate();
      return;
    case 'rival':
      w.rival(member, channel);
      return;
    case 'confirm':
      w.confirm(c.a);
      return;
    case 'cursor':
      w.cursor = Math.max(w.cursor, w.decided - (c.a % 2));
      return;
    case 'crash':
      w.crash(c.a);
  }
}

it('in every interleaving the stored copies are those that the stream sequences dictate', () => {
  const met = new Map<string, number>();
  fc.assert(
    fc.property(fc.array(command, { minLength: 50, maxLength: 400, size: 'max' }), (commands) => {
      const w = new World();
      for (const c of commands) run(w, c);
      w.settle();
      for (const [what, n] of w.met) met.set(what, (met.get(what) ?? 0) + n);
    }),
    { numRuns: Number(process.env['PROP_RUNS'] ?? 200), endOnFailure: false },
  );
  // The hard cases really occurred.
  for (const what of ['crash', 'rival', 'conflict', 'landed late', 'confirm', 'disposed'])
    expect(met.get(what) ?? 0, what).toBeGreaterThan(0);
  for (const what of ['join done', 'leave done', 'retire done', 'caught up', 'write late'])
    expect(met.get(what) ?? 0, what).toBeGreaterThan(0);
  expect(met.get('join unavailable unknown') ?? 0).toBeGreaterThan(0);
});
