import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  anycastSubject,
  chatSubject,
  deadLetterSubject,
  directSubject,
  handOverSubject,
  inboxSubject,
  parseAck,
  parseAnycast,
  parseChat,
  parseDirect,
  parseMemberSubject,
  parseReply,
  parseRequest,
  parseTimer,
  replySubject,
  requestSubject,
  SUBJECT_BYTES_MAX,
  timerSubject,
} from '../src/index.ts';
import * as arb from './arbitraries.ts';

const P = arb.PREFIX;

/** One kind of subject: values, how it is written, how it is read. */
interface Kind<T> {
  readonly name: string;
  readonly values: fc.Arbitrary<T>;
  readonly write: (value: T) => string;
  readonly parse: (subject: string) => T | undefined;
}

const kind = <T>(k: Kind<T>): Kind<unknown> => k as Kind<unknown>;

const KINDS: readonly Kind<unknown>[] = [
  kind({
    name: 'post',
    values: fc.record({ from: arb.principal, channel: arb.channel }),
    write: (v) => chatSubject(P, v.from, v.channel),
    parse: (s) => parseChat(P, s),
  }),
  kind({
    name: 'direct message',
    values: fc.record({ to: arb.principal, from: arb.principal }),
    write: (v) => directSubject(P, v.to, v.from),
    parse: (s) => parseDirect(P, s),
  }),
  kind({
    name: 'anycast',
    values: fc.record({ role: arb.id, from: arb.principal }),
    write: (v) => anycastSubject(P, v.role, v.from),
    parse: (s) => parseAnycast(P, s),
  }),
  kind({
    name: 'member store',
    values: arb.lifecycle,
    write: (v) => inboxSubject(P, v),
    parse: (s) => parseMemberSubject(P, 'dinbox', s),
  }),
  kind({
    name: 'hand-over',
    values: arb.lifecycle,
    write: (v) => handOverSubject(P, v),
    parse: (s) => parseMemberSubject(P, 'dlv', s),
  }),
  kind({
    name: 'dead letter',
    values: arb.lifecycle,
    write: (v) => deadLetterSubject(P, v),
    parse: (s) => parseMemberSubject(P, 'dead', s),
  }),
  kind({
    name: 'request on the class rail',
    values: fc.record({
      endpoint: arb.id,
      command: arb.command,
      caller: arb.lifecycle,
      nonce: arb.nonce,
    }),
    write: (v) => requestSubject(P, v),
    parse: (s) => (s.startsWith(`${P}.ep.one.`) ? parseRequest(P, s) : undefined),
  }),
  kind({
    name: 'request on the instance rail',
    values: fc.record({
      endpoint: arb.id,
      instanceId: arb.uid,
      command: arb.command,
      caller: arb.lifecycle,
      nonce: arb.nonce,
    }),
    write: (v) => requestSubject(P, v),
    parse: (s) => {
      const r = parseRequest(P, s);
      return r?.instanceId === undefined ? undefined : { ...r, instanceId: r.instanceId };
    },
  }),
  kind({
    name: 'reply',
    values: fc.record({
      endpoint: arb.id,
      instanceId: arb.uid,
      epoch: arb.id,
      caller: arb.lifecycle,
      nonce: arb.nonce,
    }),
    write: (v) => replySubject(P, v),
    parse: (s) => parseReply(P, s),
  }),
  kind({
    name: 'timer',
    values: fc.record({
      endpoint: arb.id,
      instanceId: arb.uid,
      epoch: arb.id,
      timerId: arb.id,
      verb: fc.constantFrom('schedule' as const, 'armed' as const, 'fire' as const),
    }),
    write: (v) => timerSubject(P, v),
    parse: (s) => parseTimer(P, s),
  }),
];

describe.each(KINDS)('the subject of a $name', ({ values, write, parse }) => {
  it('is read back as it was written, within the bound of a subject', () => {
    fc.assert(
      fc.property(values, (value) => {
        const subject = write(value);
        expect(parse(subject)).toEqual(value);
        expect(subject.length).toBeLessThanOrEqual(SUBJECT_BYTES_MAX);
      }),
    );
  });

  it('is never read from a damaged one as something else than what stands there', () => {
    fc.assert(
      fc.property(
        values.chain((v) => arb.damage(write(v))),
        (subject) => {
          const value = parse(subject);
          if (value !== undefined) expect(write(value)).toBe(subject);
        },
      ),
    );
  });

  it('is never read from a subject of another kind', () => {
    const others = KINDS.filter((k) => k.write !== write);
    fc.assert(
      fc.property(fc.oneof(...others.map((k) => k.values.map((v) => k.write(v)))), (subject) => {
        expect(parse(subject)).toBeUndefined();
      }),
    );
  });

  it('is never read from another space', () => {
    fc.assert(
      fc.property(
        values,
        fc.constantFrom('cotal.other', 'cotal.main2', 'cotal', 'main'),
        (v, p) => {
          expect(parse(write(v).replace(P, p))).toBeUndefined();
        },
      ),
    );
  });
});

it('whatever a parser accepts is exactly what would have been written', () => {
  fc.assert(
    fc.property(arb.nearlySubject, (subject) => {
      for (const { parse, write } of KINDS) {
        const value = parse(subject);
        if (value !== undefined) expect(write(value)).toBe(subject);
      }
    }),
  );
});

it('a confirmation is read with its numbers exactly as they stand in the subject', () => {
  const n = fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER });
  const ns = fc.bigInt(0n, (1n << 64n) - 1n).map(String);
  const head = fc.constantFrom('$JS.ACK', '$JS.ACK._.Hash');
  fc.assert(
    fc.property(
      head,
      arb.id,
      arb.id,
      n,
      n,
      ns,
      (h, stream, consumer, deliveries, seq, storedNs) => {
        const subject = `${h}.${stream}.${consumer}.${deliveries}.${seq}.1.${storedNs}.0`;
        expect(parseAck(subject)).toEqual({ stream, consumer, deliveries, seq, storedNs });
      },
    ),
  );
  fc.assert(
    fc.property(arb.nearlySubject, (subject) => {
      const a = parseAck(subject);
      if (a !== undefined) expect(subject).toContain(`.${a.deliveries}.${a.seq}.`);
    }),
  );
});
