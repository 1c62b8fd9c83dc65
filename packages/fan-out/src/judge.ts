import { encodeFrame, judgePost, mentionedNames, principalId } from '@plane3/protocol';
import type { BurialReason, Post, SoundPost } from './model.ts';

export type Judged =
  | { readonly kind: 'sound'; readonly post: SoundPost }
  | { readonly kind: 'buried'; readonly reason: BurialReason; readonly detail: string };

const buried = (reason: BurialReason, detail: string): Judged => ({
  kind: 'buried',
  reason,
  detail,
});

/**
 * The verdict on one post: protocol's own, the same as on the live and the history path; what passes
 * it makes a frame that decodes. Headers that only the broker writes show a stored answer of the
 * broker's, not a post (a sender can aim those at any subject of its account).
 */
export function judge(prefix: string, post: Post): Judged {
  if (post.brokerHeaders.length > 0) return buried('broker-headers', post.brokerHeaders.join(' '));
  const verdict = judgePost(prefix, post.subject, post.body);
  if (verdict.kind === 'anomaly') return buried(verdict.anomaly, verdict.detail);
  return {
    kind: 'sound',
    post: {
      seq: post.seq,
      channel: verdict.channel,
      from: principalId(verdict.from),
      mentions: mentionedNames(verdict.message),
      storedAtMs: post.storedAtMs,
      frame: encodeFrame(verdict.channel, post.body),
    },
  };
}
