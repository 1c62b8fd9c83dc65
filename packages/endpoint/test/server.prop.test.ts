import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  type Arrival,
  DELIVERY_COMMANDS,
  judgeRequest,
  NonceCache,
  type Request,
} from '../src/index.ts';
import { NOW_MS, nonce, request, SETTINGS, subjectOf } from './requests.ts';

const RUNS = 5_000;
const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

const command = fc.constantFrom(...DELIVERY_COMMANDS.keys(), 'drain', 'JOIN', '');
/** A good request with some of its fields exchanged for anything. */
const nearly = command.chain((c) =>
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
      { maxKeys: 3 },
    )
    .map((over) =>
      bytes(JSON.stringify({ ...request(c, { channel: 'team' }), ...over } as Request)),
    ),
);
const body = fc.oneof(
  nearly,
  fc.uint8Array({ maxLength: 200 }),
  fc.json().map(bytes),
  fc.integer({ min: 1, max: 70_000 }).map((n) => bytes('{"a":'.repeat(n))),
);
const subject = fc.oneof(
  command.map((c) => subjectOf(c)),
  fc
    .array(
      fc.oneof(fc.string({ maxLength: 12 }), fc.constantFrom('delivery', 'one', 'inst', 'ep')),
      { maxLength: 14 },
    )
    .map((t) => `cotal.main.ep.${t.join('.')}`),
  fc.tuple(command, fc.string()).map(([c, s]) => `${subjectOf(c)}${s}`),
);
const arrivals: fc.Arbitrary<Arrival> = fc.record({
  subject,
  headerNames: fc.oneof(fc.constant([]), fc.array(fc.constantFrom('Nats-Stream', 'Cotal-X', ''))),
  body,
  nowMs: fc.constant(NOW_MS),
});

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
