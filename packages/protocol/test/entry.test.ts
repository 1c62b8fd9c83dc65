import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  type EntryRef,
  entryId,
  lifecycleKey,
  MENTION_GENERATION,
  parseEntryId,
  rfc3339ToNs,
  slotOf,
  streamIncarnation,
} from '../src/index.ts';
import { lifecycle } from './arbitraries.ts';

const ref: fc.Arbitrary<EntryRef> = fc.record({
  member: lifecycle.map(lifecycleKey),
  incarnation: fc.bigInt(0n, 1n << 62n).map((n) => n.toString(36)),
  seq: fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER }),
  generation: fc.nat(),
});
const MEMBER = `local.bob.${'b'.repeat(26)}`;

describe('the id of an entry', () => {
  it('is incarnation, sequence, member and generation, and is read back whole', () => {
    expect(
      entryId({ member: MEMBER, incarnation: 'k1', seq: 7, generation: MENTION_GENERATION }),
    ).toBe(`k1.7.${MEMBER}.0`);
    fc.assert(
      fc.property(ref, (e) => {
        expect(parseEntryId(entryId(e))).toEqual(e);
      }),
    );
  });

  it('tells apart what differs in anything; the slot ignores the generation', () => {
    fc.assert(
      fc.property(ref, ref, (a, b) => {
        const same = JSON.stringify(a) === JSON.stringify(b);
        expect(entryId(a) === entryId(b)).toBe(same);
        expect(slotOf({ ...a, ...{ generation: b.generation } })).toBe(slotOf(a));
      }),
    );
  });

  it.each([
    '',
    'k1',
    `k1.7.${MEMBER}`,
    `k1.7.${MEMBER}.`,
    `K1.7.${MEMBER}.1`,
    `k1.07.${MEMBER}.1`,
    `k1.0.${MEMBER}.1`,
    `k1.7.${MEMBER}.01`,
    `k1.-7.${MEMBER}.1`,
    `k1.9007199254740993.${MEMBER}.1`,
    `k1.7.local.bob.short.1`,
    `k1.7.other.bob.${'b'.repeat(26)}.1`,
    `k1.7.*.*.*.1`,
    `k1.7.${MEMBER}.1~2`,
    ` k1.7.${MEMBER}.1`,
  ])('is not read from %j', (text) => {
    expect(parseEntryId(text)).toBeUndefined();
  });
});

const BILLION = 1_000_000_000n;

describe('the time of a stream', () => {
  it.each([
    ['1970-01-01T00:00:00Z', 0n],
    ['1970-01-01T00:00:01Z', BILLION],
    ['2024-02-29T12:00:00.5Z', 1_709_208_000_500_000_000n],
    ['2024-02-29T12:00:00.123456789Z', 1_709_208_000_123_456_789n],
    ['2024-02-29T12:00:00.000000001Z', 1_709_208_000_000_000_001n],
    ['2024-02-29T14:30:00.25+02:30', 1_709_208_000_250_000_000n],
    ['2024-02-29T04:00:00.25-08:00', 1_709_208_000_250_000_000n],
    ['2024-02-29T12:00:00.25+00:00', 1_709_208_000_250_000_000n],
  ])('%s is read to the nanosecond', (text, ns) => {
    expect(rfc3339ToNs(text)).toBe(ns.toString());
    expect(streamIncarnation(text)).toBe(ns.toString(36));
  });

  it('keeps each of zero to nine decimals, in every offset', () => {
    const time = fc.integer({ min: 0, max: 4_102_444_800 }); // seconds, until 2100
    const offsetMinutes = fc.integer({ min: -14 * 60, max: 14 * 60 });
    const decimals = fc.string({ unit: fc.constantFrom(...'0123456789'), maxLength: 9 });
    fc.assert(
      fc.property(time, offsetMinutes, decimals, (seconds, offset, d) => {
        const local = new Date((seconds + offset * 60) * 1_000);
        fc.pre(local.getTime() >= 0);
        const two = (n: number): string => String(n).padStart(2, '0');
        const abs = Math.abs(offset);
        const zone = `${offset < 0 ? '-' : '+'}${two(Math.floor(abs / 60))}:${two(abs % 60)}`;
        const text = `${local.toISOString().slice(0, 19)}${d === '' ? '' : `.${d}`}${zone}`;
        const want = BigInt(seconds) * BILLION + BigInt(d.padEnd(9, '0'));
        expect(rfc3339ToNs(text)).toBe(want.toString());
        expect(parseEntryId(`${streamIncarnation(text)}.1.${MEMBER}.0`)).toBeDefined();
      }),
    );
  });

  it.each([
    '',
    'yesterday',
    '2024-02-29',
    '2024-02-29T12:00:00',
    '2024-02-29 12:00:00Z',
    '2024-02-30T12:00:00Z',
    '2023-02-29T12:00:00Z',
    '2024-13-01T00:00:00Z',
    '2024-02-29T24:00:00Z',
    '2024-02-29T12:00:60Z',
    '2024-02-29T12:00:00.Z',
    '2024-02-29T12:00:00.1234567890Z',
    '2024-02-29T12:00:00+25:00',
    '0001-01-01T00:00:00Z',
    '1969-12-31T23:59:59.999999999Z',
    'Feb 29, 2024 12:00:00Z',
  ])('%j is no time: it throws and never stands for another instant', (text) => {
    expect(() => streamIncarnation(text)).toThrow(TypeError);
    expect(() => rfc3339ToNs(text)).toThrow(TypeError);
  });
});
