import { type ErrorCode, Plane3Error } from '@plane3/protocol';
import type { Refusal, RowRefusal } from './model.ts';

const CODES = {
  'held-and-alive': 'lease-held',
  'held-and-not-answering': 'lease-not-expired',
  'permission-denied': 'permission-denied',
  unreachable: 'broker-unreachable',
  'bucket-missing': 'stream-missing',
  'wrong-settings': 'stream-mismatch',
  'expiry-broken': 'lease-expiry-broken',
  contended: 'conflict',
  cancelled: 'cancelled',
} as const satisfies Record<Refusal['kind'], ErrorCode>;

const seconds = (ms: number): string => `${Math.ceil(ms / 1_000)} s`;

/** The refusal as the error of the catalogue: its own code, exit code, facts and repair (I31). */
export function refusalError(r: Refusal, subject: string): Plane3Error {
  const code = CODES[r.kind];
  if ('ageMs' in r) {
    const who = `${r.holder ?? 'unreadable row'} ${r.incarnation ?? ''}`.trim();
    const where = r.host === undefined ? '' : `, pid ${r.host.pid}`;
    const age = `renewed ${seconds(r.ageMs)} ago`;
    const detail =
      r.kind === 'held-and-alive'
        ? `${subject} is held by ${who}${where}, ${age}`
        : `${subject} is held by ${who}${where}, ${age} and silent since, ends in ${seconds(r.expiresInMs)}`;
    return new Plane3Error(code, { detail, context: { ...r, subject } });
  }
  const detail = `${subject}: ${r.detail}`;
  const context = { ...r, subject };
  return r.kind === 'permission-denied'
    ? new Plane3Error(code, {
        detail,
        context,
        help: 'remove its file in .cotal/space.KEY, then: cotal up',
      })
    : new Plane3Error(code, { detail, context });
}

/** What the bucket refuses, where asking again changes nothing. */
export function bucketRefusal(reason: RowRefusal, detail: string): Refusal {
  if (reason === 'permission-denied') return { kind: 'permission-denied', detail };
  if (reason === 'missing') return { kind: 'bucket-missing', detail };
  return { kind: 'wrong-settings', detail };
}
