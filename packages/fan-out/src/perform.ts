import { type EntryRef, MENTION_GENERATION, type Outcome } from '@plane3/protocol';
import type { FanOutEvent, FanOutPorts, FanOutSettings, StoredCopy } from './api.ts';
import { copyHeaders, entryOf, type PostHeaders, postHeaders } from './copy.ts';
import { decide } from './decide.ts';
import { Listeners } from './listeners.ts';
import { type MentionBudget, mentionBudget } from './mention-budget.ts';
import type {
  Copy,
  Decision,
  Event,
  FanOutCursor,
  Post,
  PostInWork,
  Reason,
  SoundPost,
  Verdict,
} from './model.ts';
import type { PostRun, SourceRefusal } from './ports.ts';
import { readForRecovery } from './recovery-reads.ts';

/** One start: answers to an earlier one are not this one's. */
export interface Term {
  readonly writer: string;
  readonly dispatch: (event: Event) => void;
  over: boolean;
}

const DIRECTORY_POLL_MS = 50;

/** Does on the ports what the machine decided and feeds the answers back as events. */
export class Performer {
  readonly stored = new Listeners<StoredCopy>();
  readonly cursors = new Listeners<FanOutCursor>();
  readonly events = new Listeners<FanOutEvent>();
  private readonly ports: FanOutPorts;
  private readonly settings: FanOutSettings;
  private readonly budget: MentionBudget;
  private run: PostRun | undefined;
  /** Raised by every open and close: a run that opens too late is closed at once. */
  private runNumber = 0;
  private directoryAsked = false;
  private headersOf: { readonly work: PostInWork; readonly headers: PostHeaders } | undefined;

  constructor(ports: FanOutPorts, settings: FanOutSettings) {
    this.ports = ports;
    this.settings = settings;
    this.budget = mentionBudget(settings.mentionCopiesMax);
  }

  perform(d: Decision, term: Term): void {
    switch (d.kind) {
      case 'publish':
        this.publish(d.copy, term);
        break;
      case 'announce':
        this.announce(d.copy, d.storeSeq);
        break;
      case 'decide':
        this.decide(d.post, term);
        break;
      case 'ask':
        this.run?.ask(d.count);
        break;
      case 'write-cursor':
        void this.writeCursor(d.cursor, term);
        break;
      case 'cursor-stored':
        this.run?.passed(d.cursor.seq);
        this.cursors.tell(d.cursor);
        break;
      case 'verify':
        void this.verify(d.copy, d.storeSeq, term);
        break;
      case 'bury':
        this.bury(d.work, d.verdict, term);
        break;
      case 'recheck':
        term.dispatch({ kind: 'rechecked', copy: d.copy, owed: this.isStillOwed(d.copy) });
        break;
      case 'recover': {
        const { store, dead, source } = this.ports;
        void readForRecovery(store, dead, source).then(answerTo(term));
        break;
      }
      case 'open-source':
        void this.openSource(d.fromSeq, term);
        break;
      case 'close-source':
        this.close();
        break;
      case 'retry-after':
        this.ports.timers.after(d.afterMs, () => answerTo(term)({ kind: 'retry' }));
        break;
      default:
        this.events.tell(d);
    }
  }

  close(): void {
    this.runNumber++;
    this.run?.close();
    this.run = undefined;
  }

  private publish(copy: Copy, term: Term): void {
    const body = copy.work.plan.sound?.frame as Uint8Array;
    const headers = copyHeaders(this.sharedHeaders(copy.work), copy, copy.entry, copy.attempt);
    this.ports.store.put({ member: copy.member, headers, body }, (answer) => {
      if (!term.over) term.dispatch({ kind: 'answered', copy, answer });
    });
  }

  /** Posts are issued one after the other, so the last one's headers are nearly always the right. */
  private sharedHeaders(work: PostInWork): PostHeaders {
    if (this.headersOf?.work !== work) {
      const { sound, signature } = work.plan;
      const headers = postHeaders(work.incarnation, sound as SoundPost, signature);
      this.headersOf = { work, headers };
    }
    return this.headersOf.headers;
  }

  private decide(post: Post, term: Term): void {
    const { directory, sign } = this.ports;
    if (!directory.isCurrent()) {
      term.dispatch({ kind: 'directory', current: false });
      this.askDirectory(term);
      return;
    }
    const plan = decide(post, {
      prefix: this.settings.prefix,
      directory,
      budget: this.budget,
      ...(sign === undefined ? {} : { sign }),
    });
    term.dispatch({ kind: 'decided', plan });
  }

  private askDirectory(term: Term): void {
    if (this.directoryAsked) return;
    this.directoryAsked = true;
    this.ports.timers.after(this.settings.directoryPollMs ?? DIRECTORY_POLL_MS, () => {
      this.directoryAsked = false;
      if (term.over) return;
      if (this.ports.directory.isCurrent()) term.dispatch({ kind: 'directory', current: true });
      else this.askDirectory(term);
    });
  }

  private isStillOwed(copy: Copy): boolean {
    const { directory } = this.ports;
    const channel = copy.work.plan.sound?.channel ?? '';
    if (copy.kind === 'mention') return directory.mayRead(copy.member, channel);
    for (const m of directory.membersOf(channel, copy.work.seq)) {
      if (m.member === copy.member) return m.generation === copy.generation;
    }
    return false;
  }

  private async verify(copy: Copy, storeSeq: number, term: Term): Promise<void> {
    const there = await this.ports.store.isCopy(storeSeq, copy.entry);
    const present = there.kind === 'done' ? there.value : undefined;
    const cause = there.kind === 'done' ? '' : detailOf(there);
    answerTo(term)({ kind: 'verified', copy, present, storeSeq, cause });
  }

  private bury(work: PostInWork, { reason, detail }: Verdict, term: Term): void {
    const { post } = work.plan;
    this.ports.dead.bury({ incarnation: work.incarnation, post, reason, detail }, (answer) => {
      answerTo(term)({ kind: 'buried', work, answer });
      if (answer.kind === 'stored')
        this.events.tell({ kind: 'quarantined', seq: work.seq, reason, detail });
    });
  }

  private async writeCursor(cursor: FanOutCursor, term: Term): Promise<void> {
    const answer = await this.ports.store.writeCursor(cursor, {
      writer: term.writer,
      at: this.ports.clock.wallMs(),
      revisions: this.ports.directory.revisions?.() ?? {},
    });
    answerTo(term)({ kind: 'cursor-answered', cursor, answer });
  }

  private async openSource(fromSeq: number, term: Term): Promise<void> {
    const mine = ++this.runNumber;
    const valid = () => mine === this.runNumber && !term.over;
    const opened = await this.ports.source.open(fromSeq, {
      post: (post) => {
        if (valid()) term.dispatch({ kind: 'post', post });
      },
      broken: (detail) => {
        const reason: Reason = { trouble: 'source-broken', detail };
        if (valid()) term.dispatch({ kind: 'failed', reason });
      },
    });
    if (opened.kind !== 'done') {
      if (valid()) term.dispatch({ kind: 'failed', reason: openFailure(opened) });
    } else if (valid()) {
      this.run = opened.value;
      term.dispatch({ kind: 'opened' });
    } else opened.value.close();
  }

  private announce(copy: Copy, storeSeq: number): void {
    const { work, member, generation } = copy;
    const { incarnation, seq } = work;
    const sound = work.plan.sound as SoundPost;
    const entry = { member, incarnation, seq, generation };
    this.tellStored(entry, sound, storeSeq, work.plan.signature);
  }

  tellStored(
    entry: EntryRef,
    post: SoundPost,
    storeSeq: number,
    signature: string | undefined,
  ): void {
    if (this.stored.none) return;
    const kind = entry.generation === MENTION_GENERATION ? 'mention' : 'durable';
    this.stored.tell({
      entry,
      entryId: entryOf(entry.incarnation, entry.seq, { ...entry, kind }),
      storeSeq,
      channel: post.channel,
      kind,
      from: post.from,
      body: post.frame,
      ...(signature === undefined ? {} : { signature }),
      storedAt: this.ports.clock.wallMs(),
    });
  }
}

const answerTo =
  (term: Term) =>
  (event: Event): void => {
    if (!term.over) term.dispatch(event);
  };

type Failed<R extends string> = Exclude<Outcome<unknown, R>, { kind: 'done' }>;

const detailOf = (o: Failed<string>): string =>
  o.kind === 'unknown' ? o.cause : `${o.reason} ${o.detail}`.trim();

function openFailure(o: Failed<SourceRefusal>): Reason {
  const detail = detailOf(o);
  if (o.kind === 'unknown') return { trouble: 'unreachable', detail };
  return { trouble: o.reason === 'missing' ? 'source-missing' : 'source-refused', detail };
}
