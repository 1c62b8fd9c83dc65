import { ENDPOINT_CODES, type ErrorCode, isId, parsePrincipal } from '@plane3/protocol';
import { z } from 'zod';
import { isDigest } from './digest.ts';

/** Request and reply envelopes (wire contract section 6, SPEC 13). Unknown fields are errors. */
export const ENVELOPE_VERSION = 1;

/** Larger requests are refused before they are parsed. */
export const REQUEST_BYTES_MAX = 65_536;
/** Deeper requests are refused before they are parsed. */
export const REQUEST_DEPTH_MAX = 24;
/** Larger replies are ignored by the caller. */
export const REPLY_BYTES_MAX = 8 * 1024 * 1024;

/**
 * `deadlineMs` is a duration from receipt, or, from this value on, an instant of the wall clock in
 * milliseconds since the epoch. SPEC leaves it to the reader; no duration is 31 years long.
 */
export const DEADLINE_INSTANT_FROM_MS = 1e12;

/** Kind of the detail that tells a caller why its `bind` was refused. */
export const BIND_REFUSED_KIND = 'ai.cotal.ep.bind-refused';

/** Whether the command had its effect. `unknown` after a deadline or a lost connection. */
const effectSchema = z.enum(['executed', 'not-executed', 'unknown']);
export type Effect = z.infer<typeof effectSchema>;

const idToken = z.string().refine(isId, { message: 'not an id' });
const digest = z.string().refine(isDigest, { message: 'not a digest' });

const senderSchema = z.strictObject({
  id: z.string().refine((t) => parsePrincipal(t) !== undefined, { message: 'not a principal' }),
  name: z.string().max(256),
  role: z.string().max(64).optional(),
});
export type Sender = z.infer<typeof senderSchema>;

const bindSchema = z.strictObject({ instanceId: z.string(), epoch: z.string() });
export type Bind = z.infer<typeof bindSchema>;

export const requestSchema = z.strictObject({
  v: z.literal(ENVELOPE_VERSION),
  id: idToken,
  op: z.strictObject({
    endpoint: z.string(),
    command: z.string(),
    inputDigest: digest.optional(),
    outputDigest: digest.optional(),
  }),
  class: z.string(),
  replyExpected: z.boolean(),
  bind: bindSchema.optional(),
  args: z.unknown().optional(),
  from: senderSchema,
  deadlineMs: z.number().int().positive(),
  correlation: z.unknown().optional(),
});
export type Request = z.infer<typeof requestSchema>;

const detailSchema = z.looseObject({ kind: z.string() });
export type Detail = z.infer<typeof detailSchema>;

const endpointCodeSchema = z.enum(ENDPOINT_CODES as [ErrorCode, ...ErrorCode[]]);
/** A code that an endpoint may answer with. */
export type EndpointCode = z.infer<typeof endpointCodeSchema>;

const replyErrorSchema = z.strictObject({
  code: endpointCodeSchema,
  message: z.string(),
  details: z.array(detailSchema).optional(),
  outcome: effectSchema,
});
export type ReplyError = z.infer<typeof replyErrorSchema>;

export const replySchema = z
  .strictObject({
    v: z.literal(ENVELOPE_VERSION),
    id: z.string(),
    ok: z.boolean(),
    data: z.unknown().optional(),
    error: replyErrorSchema.optional(),
  })
  .refine((r) => r.ok === (r.error === undefined), { message: 'error exactly when not ok' })
  .refine((r) => r.ok || r.data === undefined, { message: 'no data beside an error' });
export type Reply = z.infer<typeof replySchema>;

const encoder = new TextEncoder();

/** An envelope's bytes. */
export const encodeEnvelope = (envelope: Request | Reply): Uint8Array =>
  encoder.encode(JSON.stringify(envelope));
