import type { ApiRefusal, JetStreamApi, Link } from '@plane3/link';
import {
  chatFilter,
  done,
  type Outcome,
  refused,
  type SpaceNames,
  streamIncarnation,
  unknown,
} from '@plane3/protocol';
import type { Post } from '../model.ts';
import type {
  ChannelPage,
  PostRun,
  PostSink,
  PostSource,
  SourceRefusal,
  SourceState,
} from '../ports.ts';
import { NatsPostRun } from './post-run.ts';
import { PullInbox } from './pull.ts';

const NS_PER_MS = 1_000_000;
/** Never redelivered within a run: order would be lost, and a new run starts at the cursor anyway. */
const ACK_WAIT_MS = 3_600_000;
/** Above every limit of posts in hand. */
const UNACKED_MAX = 65_536;
const READ_WAIT_MS = 5_000;
/** A catch-up consumer that nobody deletes goes by itself. */
const READ_INACTIVE_MS = 30_000;
/** Senders at the channel stream's own limit whose oldest post is looked up; beyond it: not shown. */
const SENDERS_AT_LIMIT_MAX = 256;

type Failed = Exclude<Outcome<never, SourceRefusal>, { kind: 'done' }>;

function toSource(o: Exclude<Outcome<unknown, ApiRefusal>, { kind: 'done' }>): Failed {
  if (o.kind === 'unknown') return o;
  if (o.reason === 'not-found') return refused('missing', o.detail);
  if (o.reason === 'permission-denied') return refused('permission-denied', o.detail);
  return refused('rejected', o.detail);
}

/** The stream `CHAT` of the space account through the durable `fanout` (wire contract section 4). */
export class NatsPostSource implements PostSource {
  private readonly link: Link;
  private readonly api: JetStreamApi;
  private readonly prefix: string;
  private readonly stream: string;
  private readonly durable: string;

  constructor(o: {
    readonly link: Link;
    readonly api: JetStreamApi;
    readonly names: SpaceNames;
  }) {
    this.link = o.link;
    this.api = o.api;
    this.prefix = o.names.prefix;
    this.stream = o.names.streams.chat;
    this.durable = o.names.durables.fanout;
  }

  async state(): Promise<Outcome<SourceState, SourceRefusal>> {
    const o = await this.api.streamInfo(this.stream);
    if (o.kind !== 'done') return toSource(o);
    const { created, state } = o.value;
    return done({
      incarnation: streamIncarnation(String(created)),
      firstSeq: state.first_seq,
      lastSeq: state.last_seq,
    });
  }

  async open(fromSeq: number, sink: PostSink): Promise<Outcome<PostRun, SourceRefusal>> {
    const gone = await this.api.consumerDelete(this.stream, this.durable);
    if (gone.kind !== 'done') return toSource(gone);
    const made = await this.api.consumerCreate(this.stream, {
      durable_name: this.durable,
      deliver_policy: 'by_start_sequence',
      opt_start_seq: fromSeq,
      ack_policy: 'all',
      ack_wait: ACK_WAIT_MS * NS_PER_MS,
      max_ack_pending: UNACKED_MAX,
      max_deliver: -1,
      replay_policy: 'instant',
    });
    if (made.kind !== 'done') return toSource(made);
    const { config, created } = made.value;
    if (config.opt_start_seq !== fromSeq || config.ack_policy !== 'all')
      return refused('rejected', 'the broker kept other settings of the consumer');
    return NatsPostRun.open({
      link: this.link,
      api: this.api,
      stream: this.stream,
      consumer: this.durable,
      created: String(created),
      sink,
    });
  }

  async read(range: {
    readonly channel: string;
    readonly fromSeq: number;
    readonly toSeq: number;
    readonly postsMax: number;
  }): Promise<Outcome<ChannelPage, SourceRefusal>> {
    const filter = chatFilter(this.prefix, range.channel);
    const page = await this.readFiltered(filter, range);
    if (page.kind !== 'done') return page;
    // Asked after the posts were read: what was evicted meanwhile shows, too.
    const evicted = await this.evictedThrough(filter, range);
    if (evicted.kind !== 'done') return evicted;
    return done({ ...page.value, evictedThrough: evicted.value });
  }

  private async readFiltered(
    filter: string,
    range: { readonly fromSeq: number; readonly toSeq: number; readonly postsMax: number },
  ): Promise<Outcome<Omit<ChannelPage, 'evictedThrough'>, SourceRefusal>> {
    const name = `catchup_${crypto.randomUUID().slice(0, 8)}`;
    const made = await this.api.consumerCreate(this.stream, {
      name,
      filter_subject: filter,
      deliver_policy: 'by_start_sequence',
      opt_start_seq: range.fromSeq,
      ack_policy: 'none',
      inactive_threshold: READ_INACTIVE_MS * NS_PER_MS,
      mem_storage: true,
    });
    if (made.kind !== 'done') return toSource(made);
    try {
      if (made.value.num_pending === 0) return done({ posts: [], nextSeq: undefined });
      return await this.pullPage(name, range);
    } finally {
      await this.api.consumerDelete(this.stream, name);
    }
  }

  private async pullPage(
    name: string,
    range: { readonly toSeq: number; readonly postsMax: number },
  ): Promise<Outcome<Omit<ChannelPage, 'evictedThrough'>, SourceRefusal>> {
    const posts: Post[] = [];
    let finish: (o: Outcome<Omit<ChannelPage, 'evictedThrough'>, SourceRefusal>) => void = () => {};
    const ended = new Promise<Outcome<Omit<ChannelPage, 'evictedThrough'>, SourceRefusal>>((ok) => {
      finish = ok;
    });
    const short = (): void => {
      const last = posts.at(-1);
      if (last !== undefined) finish(done({ posts, nextSeq: last.seq + 1 }));
    };
    const inbox = await PullInbox.open(this.link, this.stream, name, {
      message: ({ post, consumerSeq }) => {
        if (consumerSeq !== posts.length + 1) return finish(unknown('a message is missing'));
        if (post.seq > range.toSeq) return finish(done({ posts, nextSeq: undefined }));
        posts.push(post);
        if (post.pending === 0) finish(done({ posts, nextSeq: undefined }));
        else if (posts.length >= range.postsMax) short();
      },
      // The broker ended the pull by its byte limit: what came so far is in order and whole.
      hint: short,
    });
    if (inbox.kind !== 'done') return inbox;
    inbox.value.pull(range.postsMax, READ_WAIT_MS);
    const timer = setTimeout(() => finish(unknown('posts did not arrive')), READ_WAIT_MS);
    const stop = this.link.onLost(() => finish(unknown('connection lost')));
    const out = await ended;
    clearTimeout(timer);
    stop();
    inbox.value.close();
    return out;
  }

  /** The stream drops the oldest post of a sender and channel when its own limit is reached. */
  private async evictedThrough(
    filter: string,
    range: { readonly fromSeq: number; readonly toSeq: number },
  ): Promise<Outcome<number, SourceRefusal>> {
    const o = await this.api.streamInfo(this.stream, { subjectsFilter: filter });
    if (o.kind !== 'done') return toSource(o);
    const { state, config } = o.value;
    let through = state.first_seq > range.fromSeq ? state.first_seq - 1 : 0;
    const limit = config.max_msgs_per_subject;
    const counts = Object.entries(state.subjects ?? {});
    const atLimit = limit > 0 ? counts.filter(([, count]) => count >= limit) : [];
    if (atLimit.length > SENDERS_AT_LIMIT_MAX) return done(range.toSeq);
    for (const [subject] of atLimit) {
      const oldest = await this.readFiltered(subject, {
        fromSeq: 1,
        toSeq: Number.MAX_SAFE_INTEGER,
        postsMax: 1,
      });
      if (oldest.kind !== 'done') return oldest;
      const first = oldest.value.posts[0]?.seq ?? 0;
      if (first > range.fromSeq) through = Math.max(through, first - 1);
    }
    return done(Math.min(through, range.toSeq));
  }
}
