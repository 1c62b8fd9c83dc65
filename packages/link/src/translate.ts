import { JetStreamApiError } from '@nats-io/jetstream';
import { PermissionViolationError } from '@nats-io/nats-core';
import { type Outcome, refused, unknown } from '@plane3/protocol';
import type { ApiRefusal } from './api.ts';
import { apiRefusalOf, detailOf, isTransient } from './api-codes.ts';

/**
 * What the official client throws, as an outcome: by class and number. For calls made through it.
 */
export function translate(e: unknown): Exclude<Outcome<never, ApiRefusal>, { kind: 'done' }> {
  if (e instanceof JetStreamApiError) {
    const error = e.apiError();
    return isTransient(error)
      ? unknown(detailOf(error))
      : refused(apiRefusalOf(error), detailOf(error));
  }
  for (let c = e; c instanceof Error; c = c.cause)
    if (c instanceof PermissionViolationError) return refused('permission-denied', c.subject);
  return unknown(e instanceof Error ? e.message : String(e));
}
