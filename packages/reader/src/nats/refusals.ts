import type { ApiRefusal } from '@plane3/link';
import { type Outcome, refused } from '@plane3/protocol';
import type { StoreRefusal } from '../ports.ts';

/** The API's refusals in this package's words; `done` and `unknown` stay what they are. */
export function inOurWords<T>(o: Outcome<T, ApiRefusal>): Outcome<T, StoreRefusal> {
  if (o.kind !== 'refused') return o;
  if (o.reason === 'not-found') return refused('missing', o.detail);
  if (o.reason === 'permission-denied') return refused('permission-denied', o.detail);
  return refused('rejected', o.detail);
}
