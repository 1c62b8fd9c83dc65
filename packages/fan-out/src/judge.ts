import { decodeFrame, encodeFrame, judgePost, mentionedNames, principalId } from '@plane3/protocol';
import type { BurialReason, Post, SoundPost } from './model.ts';

export type Judged =
  | { readonly kind: 'sound'; readonly post: SoundPost }
  | { readonly kind: 'buried'; readonly reason: BurialReason; readonly detail: string };

const buried = (reason: BurialReason, detail: string): Judged => ({
  kind: 'buried',
  reason,
  detail,
});

/** Below so many brackets a message cannot be nested too deep for its frame. */
const BRACKETS_SAFE = 60;

function brackets(body: Uint8Array): number {
  let count = 0;
  for (const byte of body) if (byte === 0x7b || byte === 0x5b) count++;
  return count;
}

/** A byte order mark in front is no part of the message and would break the frame around it. */
const withoutMark = (body: Uint8Array): Uint8Array =>
  body[0] === 0xef && body[1] === 0xbb && body[2] === 0xbf ? body.subarray(3) : body;

/**
 * The verdict on one post: protocol's own, the same as on the live and the history path, and
 * besides what only the durable path meets. Headers that only the broker writes show a stored
 * answer of the broker's, not a post (a sender can aim those at any subject of its account).
 */
export function judge(prefix: string, post: Post): Judged {
  if (post.brokerHeaders.length > 0) return buried('broker-headers', post.brokerHeaders.join(' '));
  const verdict = judgePost(prefix, post.subject, post.body);
  if (verdict.kind === 'anomaly') return buried(verdict.anomaly, verdict.detail);
  const frame = encodeFrame(verdict.channel, withoutMark(post.body));
  if (brackets(post.body) > BRACKETS_SAFE && decodeFrame(frame) === undefined)
    return buried('unserialisable', 'no frame can be made of it');
  return {
    kind: 'sound',
    post: {
      seq: post.seq,
      channel: verdict.channel,
      from: principalId(verdict.from),
      mentions: mentionedNames(verdict.message),
      storedAtMs: post.storedAtMs,
      frame,
    },
  };
}
