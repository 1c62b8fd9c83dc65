import { done, type LifecycleKey, type Outcome, refused, unknown } from '@plane3/protocol';
import { copyHeaders, entryOf, isOwn, postHeaders } from './copy.ts';
import { judge } from './judge.ts';
import type { Answer, SoundPost } from './model.ts';
import type { CopyStore, CopyToStore, PostSource } from './ports.ts';
import { ATTEMPTS_MAX } from './proving.ts';

/** What a member missed between its join cursor and the moment at which fan-out took it up. */
export interface CatchUpRequest {
  readonly member: LifecycleKey;
  readonly channel: string;
  readonly generation: number;
  /** Exclusive: the join cursor. */
  readonly from: number;
  /** Inclusive: the last post decided before the membership was seen. */
  readonly to: number;
}

export interface CaughtUp {
  readonly copied: number;
  /** Copies that were there already, from an attempt that a crash cut short. */
  readonly present: number;
  /** Posts that are too large for a copy. */
  readonly tooLarge: number;
  /** Both inclusive: posts of the channel in here are gone, or cannot be shown to be kept. */
  readonly lost?: { readonly from: number; readonly to: number };
}

export type CatchUpRefusal =
  | 'stopped'
  | 'settled'
  | 'fence-lost'
  | 'store-full'
  | 'store-recreated'
  | 'permission-denied'
  | 'missing'
  | 'rejected';

/** Posts read at a time; each page is proved before the next is read. */
export const CATCH_UP_PAGE_POSTS = 256;
/** Repeats of one page after an unknown answer. */
export const CATCH_UP_TRIES_MAX = 5;

export interface CatchUpContext {
  readonly prefix: string;
  readonly incarnation: string;
  readonly source: PostSource;
  readonly store: CopyStore;
  readonly sign?: (post: SoundPost) => string;
  /** Why to end: the member was settled, fan-out stopped. Asked before each page and each write. */
  readonly ended: () => 'settled' | 'stopped' | undefined;
  readonly onStored: (post: SoundPost, storeSeq: number, signature: string | undefined) => void;
  readonly onFenceLost: (detail: string) => void;
}

type Result<T> = Outcome<T, CatchUpRefusal>;

/**
 * Copies (from, to] of one channel for one member under the same store ids as fan-out uses, so
 * that an attempt after a crash finds what the first one stored. Copies are proved like any other.
 */
export async function catchUp(
  request: CatchUpRequest,
  context: CatchUpContext,
): Promise<Result<CaughtUp>> {
  const total = { copied: 0, present: 0, tooLarge: 0 };
  const { channel, to } = request;
  let evictedThrough = 0;
  let present = await presentCopies(request, context);
  let tries = 0;
  for (
    let fromSeq: number | undefined = request.from + 1;
    fromSeq !== undefined && fromSeq <= to;
  ) {
    const why = context.ended();
    if (why !== undefined) return refused(why);
    if (present.kind !== 'done') return present;
    const range = { channel, fromSeq, toSeq: to, postsMax: CATCH_UP_PAGE_POSTS };
    const page = await context.source.read(range);
    const copied =
      page.kind === 'done'
        ? await copyPage(page.value.posts, present.value, request, context)
        : page;
    if (copied.kind === 'refused') return copied;
    if (copied.kind === 'unknown' || page.kind !== 'done') {
      if (++tries >= CATCH_UP_TRIES_MAX)
        return copied.kind === 'unknown' ? copied : unknown('read');
      present = await presentCopies(request, context);
      continue;
    }
    tries = 0;
    total.copied += copied.value.copied;
    total.present += copied.value.present;
    total.tooLarge += copied.value.tooLarge;
    evictedThrough = Math.max(evictedThrough, Math.min(page.value.evictedThrough, to));
    fromSeq = page.value.nextSeq;
  }
  if (present.kind !== 'done') return present;
  const lost =
    evictedThrough > request.from ? { from: request.from + 1, to: evictedThrough } : null;
  return done(lost === null ? total : { ...total, lost });
}

/** Sequences of the range whose slot is taken by this membership or by a mention copy. */
async function presentCopies(
  request: CatchUpRequest,
  context: CatchUpContext,
): Promise<Result<Set<number>>> {
  const seqs = new Set<number>();
  const scanned = await context.store.scan({ member: request.member }, (copy) => {
    if (copy.incarnation !== context.incarnation) return;
    if (copy.generation !== request.generation && copy.kind !== 'mention') return;
    if (copy.seq > request.from && copy.seq <= request.to) seqs.add(copy.seq);
  });
  return scanned.kind === 'done' ? done(seqs) : scanned;
}

type PageCount = { copied: number; present: number; tooLarge: number };

async function copyPage(
  posts: readonly Parameters<typeof judge>[1][],
  present: ReadonlySet<number>,
  request: CatchUpRequest,
  context: CatchUpContext,
): Promise<Result<PageCount>> {
  const count: PageCount = { copied: 0, present: 0, tooLarge: 0 };
  const owed = { member: request.member, generation: request.generation, kind: 'durable' } as const;
  const writes: Promise<Result<void>>[] = [];
  for (const post of posts) {
    const judged = judge(context.prefix, post);
    // What fan-out buried has no copy on any path; the sender's own posts are not owed.
    if (judged.kind === 'buried' || isOwn(request.member, judged.post.from)) continue;
    if (present.has(post.seq)) {
      count.present++;
      continue;
    }
    const why = context.ended();
    if (why !== undefined) break;
    const sound = judged.post;
    const signature = context.sign?.(sound);
    const shared = postHeaders(context.incarnation, sound, signature);
    const entry = entryOf(context.incarnation, sound.seq, owed);
    const write = async (): Promise<Result<void>> => {
      const stored = await storeProved(context.store, entry, (attempt) => ({
        member: request.member,
        headers: copyHeaders(shared, owed, entry, attempt),
        body: sound.frame,
      }));
      if (stored.kind !== 'done') return stored;
      if (stored.value === 'too-large') count.tooLarge++;
      else {
        count.copied++;
        context.onStored(sound, stored.value, signature);
      }
      return done(undefined);
    };
    writes.push(write());
  }
  const results = await Promise.all(writes);
  const why = context.ended();
  if (why !== undefined) return refused(why);
  const failed = results.filter((r) => r.kind !== 'done');
  const bad = failed.find((r) => r.kind === 'refused') ?? failed[0];
  if (bad?.kind === 'refused' && bad.reason === 'fence-lost') context.onFenceLost(bad.detail);
  return bad ?? done(count);
}

/** Writes one copy and proves it; answers its store sequence. */
async function storeProved(
  store: CopyStore,
  entry: string,
  copyOf: (attempt: number) => CopyToStore,
): Promise<Result<number | 'too-large'>> {
  for (let attempt = 0; attempt <= ATTEMPTS_MAX; attempt++) {
    const answer = await new Promise<Answer>((resolve) => store.put(copyOf(attempt), resolve));
    if (answer.kind === 'unknown') return answer;
    if (answer.kind === 'refused') {
      const { reason, detail } = answer;
      return reason === 'too-large' ? done(reason) : refused(reason, detail);
    }
    if (!answer.duplicate) return done(answer.storeSeq);
    const there = await store.isCopy(answer.storeSeq, entry);
    if (there.kind !== 'done') return there;
    if (there.value) return done(answer.storeSeq);
  }
  return unknown('the store called every attempt a duplicate');
}
