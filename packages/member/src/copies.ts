import { hasBrokerHeader } from '@plane3/endpoint';
import {
  type ChannelMessage,
  decodeFrame,
  HEADER,
  handOverSubject,
  judgePost,
  type Lifecycle,
  parseAck,
  parsePrincipal,
  principalId,
} from '@plane3/protocol';

/** What arrives, judged before anything looks at it (wire contract sections 3 and 5). Pure. */
export interface RawCopy {
  /** The stored subject, not the one it was delivered on. */
  readonly subject: string;
  readonly body: Uint8Array;
  readonly headerNames: readonly string[];
  header(name: string): string | undefined;
}

export interface LiveCopy {
  readonly kind: 'post';
  readonly channel: string;
  readonly from: string;
  readonly message: ChannelMessage;
}
export type LiveVerdict = LiveCopy | { readonly kind: 'drop'; readonly reason: 'invalid' | 'own' };

/** A live frame: what is no post is dropped, and so is what the member's own principal wrote. */
export function judgeLive(prefix: string, member: Lifecycle, raw: RawCopy): LiveVerdict {
  if (hasBrokerHeader(raw.headerNames)) return { kind: 'drop', reason: 'invalid' };
  const verdict = judgePost(prefix, raw.subject, raw.body);
  if (verdict.kind !== 'post') return { kind: 'drop', reason: 'invalid' };
  const from = principalId(verdict.from);
  if (from === principalId(member)) return { kind: 'drop', reason: 'own' };
  return { kind: 'post', channel: verdict.channel, from, message: verdict.message };
}

export interface DurableCopy {
  readonly kind: 'post';
  readonly channel: string;
  readonly from: string;
  readonly message: ChannelMessage;
  readonly seq: number | undefined;
  readonly redelivered: boolean;
}
export type FrameVerdict =
  | DurableCopy
  /** Never to be handed over again: it is no frame for this member. */
  | { readonly kind: 'terminate'; readonly reason: string };

/** A copy of the own hand-over durable. `ack` is its acknowledgement subject. */
export function judgeFrame(
  prefix: string,
  member: Lifecycle,
  raw: RawCopy,
  ack: string,
): FrameVerdict {
  const bad = (reason: string): FrameVerdict => ({ kind: 'terminate', reason });
  if (raw.subject !== handOverSubject(prefix, member)) return bad('another subject');
  if (hasBrokerHeader(raw.headerNames)) return bad('headers of the broker');
  if (raw.header(HEADER.frame) !== '1') return bad('no frame header');
  const frame = decodeFrame(raw.body);
  if (frame === undefined) return bad('no frame');
  const from = frame.msg.from.id;
  if (parsePrincipal(from) === undefined) return bad('no real sender');
  const seq = Number(raw.header(HEADER.seq));
  const deliveries = parseAck(ack)?.deliveries ?? 1;
  return {
    kind: 'post',
    channel: frame.channel,
    from,
    message: frame.msg,
    seq: Number.isSafeInteger(seq) && seq > 0 ? seq : undefined,
    redelivered: deliveries > 1 || raw.header(HEADER.redelivered) === '1',
  };
}

/** How many copies wait on the durable behind this one; the last number of an ack subject. */
export function pendingBehind(ack: string): number {
  const tokens = ack.split('.');
  const n = Number(tokens[tokens.length === 9 ? 8 : 10]);
  return Number.isSafeInteger(n) && n >= 0 ? n : 0;
}

/** The text parts, one a line. */
export const textOf = (message: ChannelMessage): string =>
  message.parts
    .flatMap((p) => (p.kind === 'text' && 'text' in p ? [String(p.text)] : []))
    .join('\n');

/** The value of the one data part; the values of several; `undefined` without one. */
export function dataOf(message: ChannelMessage): unknown {
  const values = message.parts.flatMap((p) => (p.kind === 'data' && 'data' in p ? [p.data] : []));
  return values.length > 1 ? values : values[0];
}
