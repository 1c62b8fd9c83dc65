import { z } from 'zod';
import { isChannelPattern } from './channels.ts';
import { parseJson } from './message.ts';

/** Values of the buckets that more than one package reads (wire contract section 4). */

export const deliveryClassSchema = z.enum(['live', 'durable']);
export type DeliveryClass = z.infer<typeof deliveryClassSchema>;

export const channelConfigSchema = z.looseObject({
  replay: z.boolean().optional(),
  replayWindow: z
    .string()
    .regex(/^\d+(s|m|h|d)$/)
    .optional(),
  deliveryClass: deliveryClassSchema.optional(),
  description: z.string().max(200).optional(),
  instructions: z.string().max(2000).optional(),
});
export type ChannelConfig = z.infer<typeof channelConfigSchema>;

/** Key of the space-wide defaults in the channels bucket. */
export const CHANNEL_DEFAULTS_KEY = '=defaults';

/**
 * Effective delivery class: the channel's value, else the defaults', else `durable`. The only
 * resolution there is.
 */
export const effectiveClass = (
  channel: ChannelConfig | undefined,
  defaults: ChannelConfig | undefined,
): DeliveryClass => channel?.deliveryClass ?? defaults?.deliveryClass ?? 'durable';

const pattern = z.string().refine(isChannelPattern, { message: 'not a channel pattern' });

/** Rights row of a lifecycle. Readable = covered by both lists; the issued one is the ceiling. */
export const rightsRowSchema = z.looseObject({
  name: z.string(),
  allowSubscribe: z.array(pattern),
  issuedAllowSubscribe: z.array(pattern),
  revision: z.number().int().nonnegative(),
  updatedAt: z.number(),
  retiredAt: z.number().optional(),
});
export type RightsRow = z.infer<typeof rightsRowSchema>;

export const leaseRowSchema = z.looseObject({
  holder: z.string(),
  incarnation: z.string(),
  since: z.number(),
  ready: z.boolean(),
  host: z.looseObject({ boot: z.string(), pid: z.number().int(), start: z.string() }),
});
export type LeaseRow = z.infer<typeof leaseRowSchema>;
export const leaseKey = (shard: number): string => `lease.${shard}`;

export const presenceSchema = z.looseObject({
  card: z.looseObject({
    id: z.string(),
    name: z.string(),
    role: z.string().optional(),
    kind: z.enum(['agent', 'endpoint']),
  }),
  status: z.enum(['idle', 'waiting', 'working', 'offline']),
  lifecycleUid: z.string(),
  ts: z.number(),
});
export type Presence = z.infer<typeof presenceSchema>;
/** A record older than this says nothing any more. */
export const PRESENCE_TTL_MS = 6_000;
export const PRESENCE_HEARTBEAT_MS = 2_000;

export const checkpointStatusSchema = z.looseObject({
  state: z.enum(['waiting', 'resumed', 'expired']),
  deadlineGeneration: z.number().int().nonnegative(),
  deadline: z.number(),
});
export type CheckpointStatus = z.infer<typeof checkpointStatusSchema>;
export const checkpointStatusKey = (endpoint: string, token: string): string =>
  `cp.${endpoint}.${token}.status`;
export const checkpointSpecKey = (endpoint: string, token: string): string =>
  `cp.${endpoint}.${token}.spec`;

export const timerRequestSchema = z.strictObject({
  v: z.literal(1),
  timerId: z.string(),
  generation: z.number().int().min(1),
  deadline: z.number().int().nonnegative(),
});
export type TimerRequest = z.infer<typeof timerRequestSchema>;

/** Bytes to a record of `schema`, or `undefined`; never throws. */
export function parseRecord<T>(schema: z.ZodType<T>, bytes: Uint8Array | string): T | undefined {
  const json = parseJson(bytes);
  if (!json.ok) return undefined;
  const parsed = schema.safeParse(json.value);
  return parsed.success ? parsed.data : undefined;
}
