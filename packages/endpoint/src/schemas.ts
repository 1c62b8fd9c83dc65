import type { JsonSchema } from './schema.ts';

/** Arguments and results of the `delivery` endpoint (wire contract section 6), closed and inline. */
const object = (
  required: Readonly<Record<string, JsonSchema>>,
  optional: Readonly<Record<string, JsonSchema>> = {},
): JsonSchema => ({
  type: 'object',
  additionalProperties: false,
  required: Object.keys(required),
  properties: { ...required, ...optional },
});

const text = (charactersMax: number): JsonSchema => ({ type: 'string', maxLength: charactersMax });
const name: JsonSchema = { type: 'string', minLength: 1, maxLength: 256 };
const count: JsonSchema = { type: 'integer', minimum: 0 };
/** A position in the channel stream. */
const cursor = count;
/** A time, milliseconds since the epoch. */
const instant: JsonSchema = { type: 'number', minimum: 0 };
const generation: JsonSchema = { type: 'integer', minimum: 1 };
/** Any text: what is no concrete channel gets its own code, not the schema's. */
const channel: JsonSchema = { type: 'string', minLength: 1, maxLength: 4096 };
const many = (items: JsonSchema): JsonSchema => ({ type: 'array', items });
const mapOf = (values: JsonSchema): JsonSchema => ({
  type: 'object',
  additionalProperties: values,
});
const range = { from: cursor, to: cursor };

/** No value: `args` and `data` absent or null. */
export const VOID_SCHEMA: JsonSchema = { type: 'null' };
export const EMPTY_SCHEMA = object({});

export const JOIN_ARGS = object({ channel }, { joinCursor: cursor });
export const JOIN_DATA = object(
  {
    durable: { const: true },
    generation,
    joinCursor: cursor,
    cursorSource: { enum: ['client', 'frontier'] },
  },
  { lost: object(range) },
);

export const LEAVE_ARGS = object({ channel }, { generation });
export const LEAVE_DATA = object(
  { channel, leaveCursor: cursor, disposed: count },
  { alreadyLeft: { type: 'boolean' } },
);

export const LIST_DATA = object({
  memberships: many(
    object({ channel, generation, joinCursor: cursor, activated: { type: 'boolean' } }),
  ),
  gaps: many(object({ channel, ...range, reason: name })),
  channels: many(object({ channel, class: { enum: ['live', 'durable'] }, frontier: cursor })),
});

const mode: JsonSchema = { enum: ['direct', 'dlv'] };
const window: JsonSchema = { type: 'integer', minimum: 1, maximum: 4096 };
const bytes: JsonSchema = { type: 'integer', minimum: 1 };
export const ATTACH_ARGS = object({ mode, window, bytes });
/** `handedOver`: copies that wait on the member's durable once the answer is sent. */
export const ATTACH_DATA = object({ mode, window, renewMs: count }, { handedOver: count });
export const DETACH_ARGS = object({ mode }, { window, bytes });
export const DETACH_DATA = object({ mode }, { window: count, renewMs: count });

export const HEALTH_DATA = object({
  state: name,
  incarnation: name,
  since: instant,
  observedAt: instant,
});

const part = object(
  { state: name, since: instant },
  { reason: text(1024), counters: mapOf({ type: 'number' }), facts: mapOf(text(1024)) },
);
export const STATUS_DATA = object(
  {
    state: name,
    incarnation: name,
    since: instant,
    observedAt: instant,
    lease: object({ holder: name, ageMs: { type: 'number', minimum: 0 } }),
    parts: mapOf(part),
  },
  { reason: text(1024), pid: count },
);

/** `member`: a principal or one lifecycle of it; absent = everybody. */
export const PENDING_ARGS = object({}, { member: name });
export const PENDING_DATA = object({
  members: many(
    object(
      {
        member: name,
        uid: name,
        pending: count,
        handedOver: count,
        withheld: mapOf(count),
        oldestAgeMs: { type: ['number', 'null'], minimum: 0 },
      },
      { attempts: count, attached: { type: 'boolean' } },
    ),
  ),
  asOf: instant,
});

export const MEMBERS_ARGS = object({ channel });
export const MEMBERS_DATA = object({
  channel,
  members: many(
    object(
      { member: name, uid: name, generation, state: name, joinCursor: cursor },
      { leaveCursor: cursor, activated: { type: 'boolean' } },
    ),
  ),
  asOf: instant,
});

export const SETTLED_ARGS = object({ bucket: name, revision: count });
/** Answered once every change up to `revision` is applied; `applied`: how far the view is. */
export const SETTLED_DATA = object({ bucket: name, revision: count, applied: count });

const commandDocument = object({
  name,
  class: { const: 'ephemeral' },
  targeted: { const: false },
  capability: name,
  inputDigest: name,
  outputDigest: name,
  input: { type: 'object' },
  output: { type: 'object' },
});
export const DESCRIBE_DATA = object(
  {
    v: { const: 1 },
    endpoint: name,
    instanceId: name,
    epoch: name,
    protocol: object({ v: { const: 1 } }),
    clusters: many(
      object({
        urn: name,
        revision: { type: 'integer', minimum: 1 },
        commands: many(commandDocument),
        attributes: many({ type: 'object' }),
        events: many({ type: 'object' }),
      }),
    ),
  },
  { serveKey: name },
);
