import { lifecycleKey, MENTION_GENERATION } from '@plane3/protocol';
import { isOwn } from './copy.ts';
import { judge } from './judge.ts';
import type { MentionBudget } from './mention-budget.ts';
import type { MentionOutcome, Owed, Plan, Post, SoundPost } from './model.ts';
import type { Directory } from './ports.ts';

/** Names of one post that are looked at; the rest counts as over budget. */
export const MENTIONS_LOOKED_AT_MAX = 256;

export interface DecideContext {
  readonly prefix: string;
  readonly directory: Directory;
  readonly budget: MentionBudget;
  /** Signs a post once for all its copies; absent: no signature. */
  readonly sign?: (post: SoundPost) => string;
}

/**
 * Who gets a copy of this post: one post and the directory in, one plan out. Membership and
 * authorised mention decide, never presence. The directory must be current.
 */
export function decide(post: Post, context: DecideContext): Plan {
  context.budget.rewindTo(post.seq);
  const judged = judge(context.prefix, post);
  const nothing = { post, copies: [], mentions: [], signature: undefined };
  if (judged.kind === 'buried') return { ...nothing, sound: undefined, burial: judged };

  const sound = judged.post;
  const { copies, mentions } =
    context.directory.classOf(sound.channel) === 'durable'
      ? { copies: memberCopies(sound, context.directory), mentions: [] }
      : mentionCopies(sound, context.directory, context.budget);
  if (copies.length === 0) return { ...nothing, sound, mentions, burial: undefined };

  const signature = context.sign?.(sound);
  return { post, sound, copies, burial: undefined, mentions, signature };
}

/** On a durable channel: each member at that sequence but the sender's own principal. */
function memberCopies(post: SoundPost, directory: Directory): Owed[] {
  const copies: Owed[] = [];
  for (const { member, generation } of directory.membersOf(post.channel, post.seq)) {
    if (!isOwn(member, post.from)) copies.push({ member, generation, kind: 'durable' });
  }
  return copies;
}

/** On a live channel: each mentioned peer that may read it, joined or not, online or not. */
function mentionCopies(
  post: SoundPost,
  directory: Directory,
  budget: MentionBudget,
): { readonly copies: Owed[]; readonly mentions: MentionOutcome[] } {
  const copies: Owed[] = [];
  const seen = new Set<string>();
  const one = (name: string): MentionOutcome => {
    const who = directory.resolveMention(name);
    if (who === 'none') return 'nobody';
    if (who === 'ambiguous') return 'ambiguous';
    const member = lifecycleKey(who);
    if (isOwn(member, post.from)) return 'self';
    if (seen.has(member)) return 'same-member';
    seen.add(member);
    if (!directory.mayRead(member, post.channel)) return 'unauthorised';
    if (!budget.charge(post.from, post.seq, post.storedAtMs)) return 'over-budget';
    copies.push({ member, generation: MENTION_GENERATION, kind: 'mention' });
    return 'copied';
  };
  const mentions = post.mentions.slice(0, MENTIONS_LOOKED_AT_MAX).map(one);
  for (let i = MENTIONS_LOOKED_AT_MAX; i < post.mentions.length; i++) mentions.push('over-budget');
  return { copies, mentions };
}
