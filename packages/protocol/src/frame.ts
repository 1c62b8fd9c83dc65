import { z } from 'zod';
import { isChannel } from './channels.ts';
import { type ChannelMessage, JSON_DEPTH_MAX, messageSchema, parseJson } from './message.ts';

/** The hand-over frame (wire contract section 5): what a member reads from its hand-over subject. */
export const FRAME_VERSION = 1;

/** Headers of a copy. Receivers ignore those they do not know. */
export const HEADER = {
  frame: 'Cotal-Delivery-Frame',
  seq: 'Cotal-Seq',
  entry: 'Cotal-Entry',
  signature: 'Cotal-Sig',
  channel: 'Cotal-Channel',
  kind: 'Cotal-Kind',
  generation: 'Cotal-Generation',
  incarnation: 'Cotal-Incarnation',
  from: 'Cotal-From',
  handOver: 'Cotal-Hand-Over',
  redelivered: 'Cotal-Redelivered',
  reason: 'Cotal-Reason',
  attempts: 'Cotal-Attempts',
  msgId: 'Nats-Msg-Id',
  expectSubject: 'Nats-Expected-Last-Subject-Sequence-Subject',
  expectSubjectSeq: 'Nats-Expected-Last-Subject-Sequence',
  ttl: 'Nats-TTL',
} as const;

/** Set by the broker on what it makes or answers itself; a frame, row or request that bears one is hostile. */
export const BROKER_HEADERS = [
  'Nats-Stream',
  'Nats-Subject',
  'Nats-Sequence',
  'Nats-Time-Stamp',
] as const;

export interface Frame {
  readonly version: 1;
  readonly channel: string;
  readonly msg: ChannelMessage;
}

const frameSchema = z.looseObject({
  version: z.literal(FRAME_VERSION),
  channel: z.string(),
  msg: messageSchema,
});

const encoder = new TextEncoder();

/**
 * The body is exactly `{"version":1,"channel":…,"msg":…}`. `messageBytes` are the sender's own
 * JSON bytes: unknown fields stay as they were, and nothing is encoded a second time per copy.
 */
export function encodeFrame(channel: string, messageBytes: Uint8Array): Uint8Array {
  const head = encoder.encode(
    `{"version":${FRAME_VERSION},"channel":${JSON.stringify(channel)},"msg":`,
  );
  const out = new Uint8Array(head.length + messageBytes.length + 1);
  out.set(head, 0);
  out.set(messageBytes, head.length);
  out[out.length - 1] = 0x7d;
  return out;
}

/** `undefined` for whatever is not a whole frame of one channel. Every post that is one passes. */
export function decodeFrame(body: Uint8Array): Frame | undefined {
  const json = parseJson(body, JSON_DEPTH_MAX + 1); // the frame is one level around the message
  if (!json.ok) return undefined;
  const parsed = frameSchema.safeParse(json.value);
  if (!parsed.success || !isChannel(parsed.data.channel)) return undefined;
  if (parsed.data.msg.channel !== parsed.data.channel) return undefined;
  return parsed.data as Frame;
}
