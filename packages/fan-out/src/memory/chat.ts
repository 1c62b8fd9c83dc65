import { done, type Outcome, parseChat, refused, unknown } from '@plane3/protocol';
import type { Post } from '../model.ts';
import type {
  ChannelPage,
  PostRun,
  PostSink,
  PostSource,
  SourceRefusal,
  SourceState,
} from '../ports.ts';

type StoredPost = Omit<Post, 'pending'>;

/** The channel stream; outlives the daemons that read it. */
export class MemoryChat {
  readonly prefix: string;
  incarnation = 'a1';
  posts: StoredPost[] = [];
  firstSeq = 1;
  lastSeq = 0;
  missing = false;
  /** Kept per sender and channel; older ones are dropped. */
  perSubjectMax = 1000;
  /** The run that may take posts: there is one durable. */
  reader: MemoryRun | undefined;

  constructor(prefix: string) {
    this.prefix = prefix;
  }

  publish(
    subject: string,
    body: Uint8Array,
    o: { readonly atMs?: number; readonly brokerHeaders?: readonly string[] } = {},
  ): number {
    const seq = ++this.lastSeq;
    const brokerHeaders = o.brokerHeaders ?? [];
    this.posts.push({ seq, subject, body, storedAtMs: o.atMs ?? seq, brokerHeaders });
    const same = this.posts.filter((p) => p.subject === subject);
    if (same.length > this.perSubjectMax) {
      this.posts.splice(this.posts.indexOf(same[0] as StoredPost), 1);
      this.firstSeq = this.posts[0]?.seq ?? this.lastSeq + 1;
    }
    this.reader?.feed();
    return seq;
  }

  evictThrough(seq: number): void {
    this.posts = this.posts.filter((p) => p.seq > seq);
    this.firstSeq = seq + 1;
  }

  recreate(incarnation: string): void {
    this.breakRun('the stream is gone');
    this.incarnation = incarnation;
    this.posts = [];
    this.firstSeq = 1;
    this.lastSeq = 0;
  }

  breakRun(detail: string): void {
    const run = this.reader;
    this.reader = undefined;
    run?.breakOff(detail);
  }

  after(seq: number): StoredPost | undefined {
    return this.posts.find((p) => p.seq > seq);
  }

  pendingAfter(seq: number): number {
    return this.posts.filter((p) => p.seq > seq).length;
  }
}

class MemoryRun implements PostRun {
  private readonly chat: MemoryChat;
  private readonly sink: PostSink;
  private at: number;
  private owed = 0;
  private feeding = false;
  closed = false;
  passedSeq = 0;

  constructor(chat: MemoryChat, fromSeq: number, sink: PostSink) {
    this.chat = chat;
    this.at = fromSeq - 1;
    this.sink = sink;
  }

  ask(count: number): void {
    this.owed += count;
    this.feed();
  }

  passed(seq: number): void {
    this.passedSeq = seq;
  }

  close(): void {
    this.closed = true;
    if (this.chat.reader === this) this.chat.reader = undefined;
  }

  breakOff(detail: string): void {
    if (this.closed) return;
    this.closed = true;
    queueMicrotask(() => this.sink.broken(detail));
  }

  feed(): void {
    if (this.feeding) return;
    this.feeding = true;
    queueMicrotask(() => {
      this.feeding = false;
      const post = this.closed || this.owed === 0 ? undefined : this.chat.after(this.at);
      if (post === undefined) return;
      this.owed--;
      this.at = post.seq;
      this.sink.post({ ...post, pending: this.chat.pendingAfter(post.seq) });
      this.feed();
    });
  }
}

/** One daemon's access to the channel stream. */
export class MemoryPostSource implements PostSource {
  private readonly chat: MemoryChat;
  /** Asked for every call; true: it is not answered. */
  fault: () => boolean = () => false;

  constructor(chat: MemoryChat) {
    this.chat = chat;
  }

  async state(): Promise<Outcome<SourceState, SourceRefusal>> {
    if (this.fault()) return unknown('no answer');
    if (this.chat.missing) return refused('missing');
    const { incarnation, firstSeq, lastSeq } = this.chat;
    return done({ incarnation, firstSeq, lastSeq });
  }

  async open(fromSeq: number, sink: PostSink): Promise<Outcome<PostRun, SourceRefusal>> {
    if (this.fault()) return unknown('no answer');
    if (this.chat.missing) return refused('missing');
    this.chat.breakRun('the consumer was replaced');
    const run = new MemoryRun(this.chat, fromSeq, sink);
    this.chat.reader = run;
    return done(run);
  }

  async read(range: {
    readonly channel: string;
    readonly fromSeq: number;
    readonly toSeq: number;
    readonly postsMax: number;
  }): Promise<Outcome<ChannelPage, SourceRefusal>> {
    if (this.fault()) return unknown('no answer');
    if (this.chat.missing) return refused('missing');
    const { posts, prefix, firstSeq, perSubjectMax } = this.chat;
    const of = posts.filter((p) => parseChat(prefix, p.subject)?.channel === range.channel);
    const inRange = of.filter((p) => p.seq >= range.fromSeq && p.seq <= range.toSeq);
    const page = inRange.slice(0, range.postsMax).map((p) => ({ ...p, pending: 0 }));
    let evictedThrough = firstSeq > range.fromSeq ? firstSeq - 1 : 0;
    for (const subject of new Set(of.map((p) => p.subject))) {
      const kept = of.filter((p) => p.subject === subject);
      const first = kept[0]?.seq ?? 0;
      if (kept.length >= perSubjectMax && first > range.fromSeq)
        evictedThrough = Math.max(evictedThrough, first - 1);
    }
    const last = page.at(-1);
    const nextSeq = last === undefined || page.length === inRange.length ? undefined : last.seq + 1;
    return done({ posts: page, nextSeq, evictedThrough: Math.min(evictedThrough, range.toSeq) });
  }
}
