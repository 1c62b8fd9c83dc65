import { z } from 'zod';
import { isChannel } from './channels.ts';
import { type Principal, parsePrincipal, principalId } from './ids.ts';
import { parseChat } from './subjects.ts';

/** The message of SPEC 5 (wire contract section 3). Unknown fields are kept and ignored. */

/** Deeper JSON than this is refused before anything walks it. */
export const JSON_DEPTH_MAX = 64;

/** Own walk: a schema of nested unions takes 50 ms for 100 kB and drops keys that it mistrusts. */
function isJsonValue(value: unknown, depthMax: number): boolean {
  if (value === null || typeof value === 'boolean' || typeof value === 'string') return true;
  if (typeof value === 'number') return Number.isFinite(value);
  if (typeof value !== 'object' || depthMax === 0) return false;
  if (!Array.isArray(value) && !isPlainObject(value)) return false;
  const inner: unknown[] = Array.isArray(value) ? value : Object.values(value);
  for (const x of inner) if (!isJsonValue(x, depthMax - 1)) return false; // holes are undefined here
  return true;
}

function isPlainObject(value: object): boolean {
  const proto: unknown = Object.getPrototypeOf(value);
  return proto === null || proto === Object.prototype;
}

const textPart = z.looseObject({ kind: z.literal('text'), text: z.string() });
const dataPart = z.looseObject({
  kind: z.literal('data'),
  data: z.unknown().refine((v) => isJsonValue(v, JSON_DEPTH_MAX), { message: 'not a JSON value' }),
});
const artifactPart = z.looseObject({
  kind: z.literal('artifact'),
  name: z.string(),
  mediaType: z.string(),
  digest: z.string().regex(/^sha256:[0-9a-f]{64}$/),
  size: z.number().int().nonnegative(),
});
/** A kind of somebody's own bears a reverse-DNS name: at least one dot. */
const foreignPart = z.looseObject({
  kind: z.string().regex(/^[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)+$/),
});

export const messageSchema = z
  .looseObject({
    id: z.string(),
    ts: z.number(),
    space: z.string(),
    from: z.looseObject({ id: z.string(), name: z.string(), role: z.string().optional() }),
    channel: z.string().optional(),
    to: z.string().optional(),
    toService: z.string().optional(),
    parts: z.array(z.union([textPart, dataPart, artifactPart, foreignPart])),
    mentions: z.array(z.string()).optional(),
    replyTo: z.string().optional(),
    contextId: z.string().optional(),
  })
  .refine((m) => [m.channel, m.to, m.toService].filter((x) => x !== undefined).length === 1, {
    message: 'exactly one of channel, to and toService',
  });

export type Message = z.infer<typeof messageSchema>;
export type ChannelMessage = Message & { readonly channel: string };

/** Why a post can never be handled; it is terminated or quarantined once, never retried. */
export type Anomaly = 'malformed-subject' | 'sender-mismatch' | 'malformed-json';

export type PostVerdict =
  | {
      readonly kind: 'post';
      readonly from: Principal;
      readonly channel: string;
      readonly message: ChannelMessage;
    }
  | { readonly kind: 'anomaly'; readonly anomaly: Anomaly; readonly detail: string };

const anomaly = (kind: Anomaly, detail: string): PostVerdict => ({
  kind: 'anomaly',
  anomaly: kind,
  detail,
});

/** A byte order mark stays, so that it is refused: behind the head of a frame it is no JSON. */
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Cheap depth scan over the text; strings are skipped. */
export function jsonDepthWithin(text: string, depthMax: number): boolean {
  let depth = 0;
  let inString = false;
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i);
    if (inString) {
      if (c === 0x5c) i++;
      else if (c === 0x22) inString = false;
    } else if (c === 0x22) inString = true;
    else if (c === 0x5b || c === 0x7b) {
      if (++depth > depthMax) return false;
    } else if (c === 0x5d || c === 0x7d) depth--;
  }
  return true;
}

/** Bytes to a JSON value, or why not. Never throws. */
export function parseJson(
  bytes: Uint8Array | string,
  depthMax: number = JSON_DEPTH_MAX,
): { readonly ok: true; readonly value: unknown } | { readonly ok: false; readonly why: string } {
  try {
    const text = typeof bytes === 'string' ? bytes : utf8.decode(bytes);
    if (!jsonDepthWithin(text, depthMax)) return { ok: false, why: 'nested too deep' };
    return { ok: true, value: JSON.parse(text) };
  } catch {
    return { ok: false, why: 'not JSON in UTF-8' };
  }
}

/**
 * The one verdict on a channel post, the same on the live, history and durable path: the subject
 * names sender and channel, the body must agree with both. `prefix` is `cotal.<space token>`.
 */
export function judgePost(prefix: string, subject: string, body: Uint8Array): PostVerdict {
  const at = parseChat(prefix, subject);
  if (at === undefined) return anomaly('malformed-subject', subject.slice(0, 200));
  const json = parseJson(body);
  if (!json.ok) return anomaly('malformed-json', json.why);
  const parsed = messageSchema.safeParse(json.value);
  if (!parsed.success) {
    const issue = parsed.error.issues[0];
    return anomaly('malformed-json', `${issue?.path.join('.') ?? ''}: ${issue?.message ?? ''}`);
  }
  const message = parsed.data;
  if (message.from.id !== principalId(at.from))
    return anomaly('sender-mismatch', `from.id is not ${principalId(at.from)}`);
  if (message.channel !== at.channel)
    return anomaly('malformed-json', `channel is not ${at.channel}`);
  return {
    kind: 'post',
    from: at.from,
    channel: at.channel,
    message: message as ChannelMessage,
  };
}

/** Whether a message may be published at all; the same rules before it has a subject. */
export function isPublishable(message: Message): boolean {
  return (
    messageSchema.safeParse(message).success &&
    (message.channel === undefined || isChannel(message.channel)) &&
    parsePrincipal(message.from.id) !== undefined
  );
}

/** Mentions resolve by lowercased name; what is no string or empty after trimming names nobody. */
export const mentionedNames = (message: Message): readonly string[] => [
  ...new Set((message.mentions ?? []).map((m) => m.trim().toLowerCase()).filter((m) => m !== '')),
];
