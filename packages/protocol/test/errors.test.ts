import { describe, expect, it } from 'vitest';
import {
  ENDPOINT_CODES,
  ERRORS,
  type ErrorCode,
  isPlane3Error,
  Plane3Error,
} from '../src/index.ts';

const codes = Object.keys(ERRORS) as ErrorCode[];

/** Exit codes of the command line, each with a code that ends with it. */
const EXIT_CODES: Readonly<Record<number, ErrorCode>> = {
  1: 'conflict',
  2: 'usage',
  3: 'not-serving',
  4: 'lease-held',
  5: 'lease-not-expired',
  6: 'observer-torn',
  7: 'permission-denied',
  8: 'transport-refused',
  9: 'settings-invalid',
  10: 'broker-too-old',
  70: 'defect',
  124: 'timed-out',
};

describe('the error catalogue', () => {
  it('ends every failure with a documented exit code, and has a failure for each of them', () => {
    const documented = Object.keys(EXIT_CODES).map(Number);
    expect([...new Set(codes.map((c) => ERRORS[c].exitCode))].sort((a, b) => a - b)).toEqual(
      documented,
    );
    for (const [exit, code] of Object.entries(EXIT_CODES))
      expect(ERRORS[code].exitCode).toBe(Number(exit));
  });

  it('has the codes of the endpoint that the wire contract lists in section 6, and no others', () => {
    expect([...ENDPOINT_CODES].sort()).toEqual(
      `bad-request, unsupported-version, op-mismatch, class-mismatch, target-mismatch, sender-mismatch,
      unauthenticated, permission-denied, not-found, already-exists, conflict, contract-mismatch,
      contract-invalid, failed-precondition, deadline-exceeded, cancelled, expired, unavailable,
      unimplemented, resource-exhausted, internal`
        .split(',')
        .map((c) => c.trim())
        .sort(),
    );
  });

  it.each(codes)('%s says what happened and what to do, in one line each', (code) => {
    const { message, help, exitCode } = ERRORS[code];
    expect(code).toMatch(/^[a-z][a-z-]*[a-z]$/);
    for (const text of [message, help]) expect(text).toMatch(/^\S.*[^.\s]$/);
    expect(exitCode).toBeGreaterThan(0);
  });

  it('has an exit code for every fault of an observer, of a lease, of a credential', () => {
    const exits = (prefix: string) =>
      new Set(codes.filter((c) => c.startsWith(prefix)).map((c) => ERRORS[c].exitCode));
    expect(exits('observer-')).toEqual(new Set([6]));
    expect(exits('credential-')).toEqual(new Set([7]));
    expect(exits('lease-')).toEqual(new Set([4, 5, 10]));
  });
});

describe('an error', () => {
  it('bears its code, the sentence with the detail, the repair, the exit code and its cause', () => {
    const cause = new Error('inner');
    const e = new Plane3Error('lease-held', {
      detail: 'by another host',
      help: 'wait',
      context: { shard: 0 },
      cause,
    });
    expect(e.message).toBe('another daemon serves this space: by another host');
    expect(e).toMatchObject({
      code: 'lease-held',
      help: 'wait',
      exitCode: 4,
      context: { shard: 0 },
      cause,
    });
    expect(isPlane3Error(e)).toBe(true);
    expect(isPlane3Error(cause)).toBe(false);
  });

  it('has the repair of the catalogue where none is given', () => {
    expect(new Plane3Error('not-serving').help).toBe(ERRORS['not-serving'].help);
  });
});
