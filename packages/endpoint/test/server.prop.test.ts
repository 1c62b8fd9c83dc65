import {
  type Arrival,
  DELIVERY_COMMANDS,
  judgeRequest,
  NonceCache,
  type Request,
} from '@plane3/endpoint';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { NOW_MS, nonce, request, SETTINGS, subjectOf } from './requests.ts';

const RUNS = 5_000;
const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

const command = fc.constantFrom(...DELIVERY_COMMANDS.keys(), 'drain', 'JOIN', '');
const GOOD_ARGS: Readonly<Record<string, unknown>> = {
  describe: null,
  join: { channel: 'team' },
  leave: { channel: 'team' },
  members: { channel: 'team' },
  attach: { mode: 'dlv', window: 64, bytes: 1 },
  detach: { mode: 'dlv' },
  settled: { bucket: 'b', revision: 1 },
};
const good = (c: string): Request => request(c, c in GOOD_ARGS ? GOOD_ARGS[c] : {});
/** A good request with some of its fields exchanged for anything. */
const nearly = (which: fc.Arbitrary<string>) =>
  which.chain((c) =>
    fc
      .dictionary(
        fc.constantFrom(
          'v',
          'id',
          'op',
          'class',
          'replyExpected',
          'bind',
          'args',
          'from',
          'deadlineMs',
          '__proto__',
          'x',
        ),
        fc.oneof(fc.jsonValue(), fc.constantFrom(1, {}, 'delivery', true)),
        { maxKeys: 2 },
      )
      .map((over) => bytes(JSON.stringify({ ...good(c), ...over } as Request))),
  );
const body = fc.oneof(
  nearly(command),
  fc.uint8Array({ maxLength: 200 }),
  fc.json().map(bytes),
  fc.integer({ min: 1, max: 70_000 }).map((n) => bytes('{"a":'.repeat(n))),
);
const subjectTail = fc.oneof(
  { weight: 4, arbitrary: fc.constant('') },
  { weight: 1, arbitrary: fc.string() },
);
const strangeSubject = fc
  .array(
    fc.oneof(
      fc.string({ maxLength: 12 }),
      fc.constantFrom('delivery', 'one', 'inst', 'ep', 'join', 'local', 'bob'),
    ),
    { maxLength: 14 },
  )
  .map((t) => `cotal.main.ep.${t.join('.')}`);
const headerNames = fc.oneof(
  { weight: 4, arbitrary: fc.constant([]) },
  { weight: 1, arbitrary: fc.array(fc.constantFrom('Nats-Stream', 'Cotal-X', '')) },
);
const fitting = fc.tuple(command, subjectTail, headerNames).chain(([c, tail, names]) =>
  fc.oneof(body, nearly(fc.constant(c))).map((b) => ({
    subject: `${subjectOf(c)}${tail}`,
    headerNames: names,
    body: b,
    nowMs: NOW_MS,
  })),
);
const strange = fc.record({
  subject: strangeSubject,
  headerNames,
  body,
  nowMs: fc.constant(NOW_MS),
});
const arrivals: fc.Arbitrary<Arrival> = fc.oneof(
  { weight: 3, arbitrary: fitting },
  { weight: 1, arbitrary: strange },
);

test('five thousand generated requests: the judge never throws and only whole ones become calls', () => {
  const nonces = new NonceCache(256);
  const seen: Record<string, number> = {};
  fc.assert(
    fc.property(arrivals, (a) => {
      const v = judgeRequest(SETTINGS, nonces, a);
      seen[v.kind] = (seen[v.kind] ?? 0) + 1;
      if (v.kind === 'call') {
        expect(a.headerNames).not.toContain('Nats-Stream');
        expect(v.command.checkInput(v.args)).toEqual({ ok: true });
        expect(a.subject.endsWith(`.${v.nonce}`)).toBe(true);
      }
      expect(nonces.size).toBeLessThanOrEqual(256);
    }),
    { numRuns: RUNS },
  );
  // The hard cases did occur.
  for (const kind of ['call', 'refusal', 'ignore']) expect(seen[kind] ?? 0).toBeGreaterThan(10);
});

test('the verdict on a request depends on nothing but the request and its nonce', () => {
  fc.assert(
    fc.property(arrivals, (a) => {
      const first = judgeRequest(SETTINGS, new NonceCache(), a);
      const second = judgeRequest(SETTINGS, new NonceCache(), a);
      expect(second).toEqual(first);
    }),
    { numRuns: 200 },
  );
  expect(nonce()).toMatch(/^[A-Za-z0-9_-]{22}$/);
});
