import type { HeaderList, JetStreamApi, Publisher } from '@plane3/link';
import { deadPostSubject, done, HEADER, type Outcome, type SpaceNames } from '@plane3/protocol';
import type { Answer } from '../model.ts';
import type { Burial, DeadPosts, ReadRefusal } from '../ports.ts';
import { toAnswer, toRead } from './answers.ts';

/** The subject that the post was stored on; hostile text, for people only. */
export const DEAD_SUBJECT_HEADER = 'Cotal-Subject';
export const DEAD_DETAIL_HEADER = 'Cotal-Detail';
/** Set to `omitted` when the body did not fit beside the reason; the channel stream has it. */
export const DEAD_BODY_HEADER = 'Cotal-Body';

const TEXT_MAX = 200;

/** A header value can bear no line break, and what a sender wrote may hold anything. */
const plain = (text: string): string =>
  text
    .slice(0, TEXT_MAX)
    .replace(/[^\x20-\x7e]/g, '?')
    .trim();

/** Dead posts on `P.dead._post` of the stream `DEAD` (wire contract section 4). */
export class NatsDeadPosts implements DeadPosts {
  private readonly api: JetStreamApi;
  private readonly publisher: Publisher;
  private readonly stream: string;
  private readonly subject: string;

  constructor(o: {
    readonly api: JetStreamApi;
    readonly publisher: Publisher;
    readonly names: SpaceNames;
  }) {
    this.api = o.api;
    this.publisher = o.publisher;
    this.stream = o.names.streams.dead;
    this.subject = deadPostSubject(o.names.prefix);
  }

  bury(burial: Burial, onAnswer: (answer: Answer) => void): void {
    const { post, incarnation } = burial;
    const headers: HeaderList = [
      [HEADER.msgId, `${incarnation}.${post.seq}`],
      [HEADER.incarnation, incarnation],
      [HEADER.seq, String(post.seq)],
      [HEADER.reason, burial.reason],
      [HEADER.attempts, '1'],
      [DEAD_SUBJECT_HEADER, plain(post.subject)],
      [DEAD_DETAIL_HEADER, plain(burial.detail)],
    ];
    this.publisher.publishWith(this.subject, post.body, headers, (o) => {
      if (o.kind !== 'refused' || o.reason !== 'too-large') {
        onAnswer(toAnswer(o, this.stream));
        return;
      }
      const omitted: HeaderList = [...headers, [DEAD_BODY_HEADER, 'omitted']];
      this.publisher.publishWith(this.subject, new Uint8Array(), omitted, (second) =>
        onAnswer(toAnswer(second, this.stream)),
      );
    });
  }

  async buriedAbove(
    deadFloor: number,
    incarnation: string,
  ): Promise<
    Outcome<{ readonly seqs: ReadonlySet<number>; readonly deadSeq: number }, ReadRefusal>
  > {
    const info = await this.api.streamInfo(this.stream);
    if (info.kind !== 'done') return toRead(info);
    const deadSeq = info.value.state.last_seq;
    const seqs = new Set<number>();
    // Leader reads one by one: above the floor lie only those of the last open posts.
    for (let from = deadFloor + 1; from <= deadSeq; ) {
      const o = await this.api.nextOf(this.stream, this.subject, from);
      if (o.kind !== 'done') return toRead(o);
      if (o.value === undefined) break;
      if (o.value.header(HEADER.incarnation) === incarnation)
        seqs.add(Number(o.value.header(HEADER.seq)));
      from = o.value.seq + 1;
    }
    return done({ seqs, deadSeq });
  }
}
