/**
 * JetStream's error codes that mean something to us; the only place where they are named.
 * Every other code is a plain refusal.
 */
export const API_CODE = {
  noMessageFound: 10037,
  sequenceNotFound: 10043,
  streamNotFound: 10059,
  consumerNotFound: 10014,
  consumerDoesNotExist: 10149,
  consumerExists: 10148,
  consumerNameInUse: 10013,
  streamNameInUse: 10058,
  messageDeleteFailed: 10057,
  wrongLastSequence: 10071,
  wrongLastSequenceUnknown: 10164,
  wrongLastMessageId: 10070,
  storeFailed: 10077,
  insufficientResources: 10023,
  storageExceeded: 10047,
  memoryExceeded: 10028,
  accountResourcesExceeded: 10002,
  messageTooLarge: 10054,
  headerTooLarge: 10097,
} as const;

const C = API_CODE;
const NOT_FOUND: ReadonlySet<number> = new Set([
  C.streamNotFound,
  C.consumerNotFound,
  C.consumerDoesNotExist,
  C.noMessageFound,
  C.sequenceNotFound,
]);
const CONFLICT: ReadonlySet<number> = new Set([
  C.consumerExists,
  C.consumerNameInUse,
  C.streamNameInUse,
  C.wrongLastSequence,
  C.wrongLastSequenceUnknown,
]);
const STORE_FULL: ReadonlySet<number> = new Set([
  C.storeFailed,
  C.insufficientResources,
  C.storageExceeded,
  C.memoryExceeded,
  C.accountResourcesExceeded,
]);

/**
 * Passing states of the broker: a cluster without a leader (10008, 10009, 10073), JetStream not
 * up yet (10039, 10076), the same message id under way (10158). Nothing was decided, so they are
 * `unknown`.
 */
const TRANSIENT: ReadonlySet<number> = new Set([10008, 10009, 10039, 10073, 10076, 10158]);

export interface ApiError {
  readonly code: number;
  readonly err_code: number;
  readonly description: string;
}

export const isTransient = (e: ApiError): boolean => TRANSIENT.has(e.err_code);

export const detailOf = (e: ApiError): string => `${e.description} (${e.err_code})`;

export function apiRefusalOf(e: ApiError): 'not-found' | 'conflict' | 'rejected' {
  if (NOT_FOUND.has(e.err_code)) return 'not-found';
  return CONFLICT.has(e.err_code) ? 'conflict' : 'rejected';
}

export function publishRefusalOf(
  e: ApiError,
): 'wrong-sequence' | 'store-full' | 'too-large' | 'rejected' {
  if (e.err_code === C.wrongLastSequence || e.err_code === C.wrongLastSequenceUnknown)
    return 'wrong-sequence';
  if (STORE_FULL.has(e.err_code)) return 'store-full';
  if (e.err_code === C.messageTooLarge || e.err_code === C.headerTooLarge) return 'too-large';
  return 'rejected';
}
