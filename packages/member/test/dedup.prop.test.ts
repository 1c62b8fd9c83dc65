import { type Copy, confirmSeen, Dedup, PostKeys, type Seen } from '@plane3/member';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

type Act =
  | {
      readonly act: 'copy';
      readonly path: 'live' | 'durable';
      readonly id: number;
      readonly again: boolean;
    }
  | { readonly act: 'surface' }
  | { readonly act: 'confirm'; readonly nth: number };

const acts: fc.Arbitrary<readonly Act[]> = fc.array(
  fc.oneof(
    fc.record({
      act: fc.constant('copy' as const),
      path: fc.constantFrom('live' as const, 'durable' as const),
      id: fc.nat(4),
      again: fc.boolean(),
    }),
    fc.constant({ act: 'surface' as const }),
    fc.record({ act: fc.constant('confirm' as const), nth: fc.nat(9) }),
  ),
  { maxLength: 60 },
);

interface Run {
  readonly acked: Map<string, string>;
  readonly issued: Map<string, string>;
  readonly surfacings: { readonly key: string; readonly again: boolean }[];
  readonly confirmed: Set<string>;
  readonly held: Set<string>;
}

function play(list: readonly Act[]): Run {
  const dedup = new Dedup();
  const buffer: Seen[] = [];
  const out: Seen[] = [];
  const run: Run = {
    acked: new Map(),
    issued: new Map(),
    surfacings: [],
    confirmed: new Set(),
    held: new Set(),
  };
  let n = 0;
  for (const a of list) {
    if (a.act === 'copy') {
      const key = `k${a.id}`;
      const token = a.path === 'durable' ? `t${n++}` : undefined;
      if (token !== undefined) run.issued.set(token, key);
      const again = a.path === 'durable' && a.again;
      const copy: Copy = { path: a.path, key, again, ...(token === undefined ? {} : { token }) };
      const v = dedup.arrive(copy);
      if (v.kind === 'new') {
        buffer.push(v.seen);
        run.surfacings.push({ key, again });
      }
      if (v.kind === 'acknowledge') {
        expect(run.confirmed.has(key)).toBe(true);
        run.acked.set(v.token, key);
      }
    } else if (a.act === 'surface') {
      const seen = buffer.shift();
      if (seen !== undefined) {
        seen.stage = 'surfaced';
        out.push(seen);
      }
    } else {
      const seen = out[a.nth % Math.max(1, out.length)];
      if (seen === undefined || seen.stage !== 'surfaced') continue;
      run.confirmed.add(seen.key);
      for (const t of confirmSeen(seen)) run.acked.set(t, seen.key);
    }
  }
  for (const s of [...buffer, ...out]) for (const t of s.tokens) run.held.add(t);
  return run;
}

describe('one post, one surfacing', () => {
  test('a copy is acknowledged only after the host confirmed that very post', () => {
    fc.assert(
      fc.property(acts, (list) => {
        const run = play(list);
        for (const [token, key] of run.acked) {
          expect(run.confirmed.has(key)).toBe(true);
          expect(run.issued.get(token)).toBe(key);
        }
      }),
    );
  });

  test('a post surfaces once, and once more only for a copy that was handed over again', () => {
    fc.assert(
      fc.property(acts, (list) => {
        const first = new Set<string>();
        for (const s of play(list).surfacings) {
          if (first.has(s.key)) expect(s.again).toBe(true);
          first.add(s.key);
        }
      }),
    );
  });

  test('memory is bounded, and what was forgotten can still be confirmed by who holds it', () => {
    const dedup = new Dedup(4);
    const firsts = Array.from({ length: 10 }, (_, i) =>
      dedup.arrive({ path: 'durable', key: `k${i}`, token: `t${i}`, again: false }),
    );
    expect(dedup.size).toBe(4);
    const first = firsts[0];
    expect(first?.kind === 'new' && confirmSeen(first.seen)).toEqual(['t0']);
  });
});

describe('posts without an id', () => {
  test('are neither merged nor doubled, in any order of their live and durable copies', () => {
    const copies = fc.array(
      fc.record({ path: fc.constantFrom('live', 'durable'), content: fc.constantFrom('a', 'b') }),
      { maxLength: 24 },
    );
    fc.assert(
      fc.property(copies, (list) => {
        const keys = new PostKeys();
        const dedup = new Dedup();
        const count = { live: { a: 0, b: 0 }, durable: { a: 0, b: 0 } };
        const surfaced = { a: 0, b: 0 };
        list.forEach(({ path, content }, i) => {
          const p = path as 'live' | 'durable';
          const c = content as 'a' | 'b';
          count[p][c]++;
          const live = p === 'live';
          const key = live ? keys.idlessLive(c) : keys.idlessDurable(c, i);
          const v = dedup.arrive({
            path: p,
            key,
            again: false,
            ...(live ? {} : { token: `t${i}` }),
          });
          if (v.kind === 'new') surfaced[c]++;
        });
        for (const c of ['a', 'b'] as const)
          expect(surfaced[c]).toBe(Math.max(count.live[c], count.durable[c]));
      }),
    );
  });

  test('the same channel sequence is the same post, however often it is handed over', () => {
    const keys = new PostKeys();
    expect(keys.idlessDurable('d', 7)).toBe(keys.idlessDurable('d', 7));
    expect(keys.idlessDurable('d', 8)).not.toBe(keys.idlessDurable('d', 7));
    expect(keys.idlessDurable('d', undefined)).not.toBe(keys.idlessDurable('d', undefined));
  });

  test('their memory is bounded', () => {
    const keys = new PostKeys(8);
    for (let i = 0; i < 100; i++) keys.idlessLive(`d${i}`);
    for (let i = 0; i < 100; i++) keys.idlessDurable('one', i);
    expect(keys.size).toBeLessThanOrEqual(9);
  });
});

test('an id counts only with its sender and channel: nobody suppresses the post of another', () => {
  const keys = new PostKeys();
  expect(keys.withId('local.a', 'team', 'x')).not.toBe(keys.withId('local.b', 'team', 'x'));
  expect(keys.withId('local.a', 'team', 'x')).not.toBe(keys.withId('local.a', 'other', 'x'));
});
