import {
  type DeliveryClass,
  done,
  type Lifecycle,
  type LifecycleKey,
  lifecycleKey,
  type Outcome,
  unknown,
} from '@plane3/protocol';
import type { Answer } from '../model.ts';
import type {
  Burial,
  Clock,
  DeadPosts,
  Directory,
  OwedMember,
  ReadRefusal,
  Timers,
} from '../ports.ts';
import { type Fault, faulty } from './inbox.ts';

/** Dead posts; outlives the daemons that write to it. */
export class MemoryDeadPosts implements DeadPosts {
  readonly burials: (Burial & { readonly deadSeq: number })[] = [];
  fault: () => Fault = () => 'none';
  private ids = new Map<string, number>();

  /** The duplicate window passes. */
  forgetIds(): void {
    this.ids.clear();
  }

  bury(burial: Burial, onAnswer: (answer: Answer) => void): void {
    const write = (): Answer => {
      const id = `${burial.incarnation}.${burial.post.seq}`;
      const known = this.ids.get(id);
      if (known !== undefined) return { kind: 'stored', storeSeq: known, duplicate: true };
      const deadSeq = this.burials.length + 1;
      this.ids.set(id, deadSeq);
      this.burials.push({ ...burial, deadSeq });
      return { kind: 'stored', storeSeq: deadSeq, duplicate: false };
    };
    const answer = faulty(this.fault(), () => this.burials.length, write);
    queueMicrotask(() => onAnswer(answer));
  }

  async buriedAbove(
    deadFloor: number,
    incarnation: string,
  ): Promise<
    Outcome<{ readonly seqs: ReadonlySet<number>; readonly deadSeq: number }, ReadRefusal>
  > {
    if (this.fault() === 'not-done') return unknown('no answer');
    const above = this.burials.filter(
      (b) => b.deadSeq > deadFloor && b.incarnation === incarnation,
    );
    return done({ seqs: new Set(above.map((b) => b.post.seq)), deadSeq: this.burials.length });
  }
}

export interface MemoryRow extends OwedMember {
  readonly channel: string;
  readonly joinCursor: number;
  leaveCursor?: number;
}

export class MemoryDirectory implements Directory {
  readonly classes = new Map<string, DeliveryClass>();
  readonly rows: MemoryRow[] = [];
  readonly names = new Map<string, Lifecycle | 'ambiguous'>();
  readonly readers = new Set<string>();
  current = true;

  classOf(channel: string): DeliveryClass {
    return this.classes.get(channel) ?? 'durable';
  }

  membersOf(channel: string, seq: number): OwedMember[] {
    return this.rows.filter(
      (r) =>
        r.channel === channel &&
        r.joinCursor < seq &&
        (r.leaveCursor === undefined || seq <= r.leaveCursor),
    );
  }

  resolveMention(name: string): Lifecycle | 'none' | 'ambiguous' {
    return this.names.get(name) ?? 'none';
  }

  mayRead(member: LifecycleKey, channel: string): boolean {
    return this.readers.has(`${member} ${channel}`);
  }

  isCurrent(): boolean {
    return this.current;
  }

  join(member: Lifecycle, channel: string, joinCursor: number, generation: number): MemoryRow {
    const row: MemoryRow = { member: lifecycleKey(member), channel, joinCursor, generation };
    this.rows.push(row);
    return row;
  }

  grant(member: Lifecycle, channel: string): void {
    this.readers.add(`${lifecycleKey(member)} ${channel}`);
  }
}

/** A clock that moves only when told, and the timers on it. */
export class ManualTime implements Clock, Timers {
  nowMs = 1_000_000;
  private due: { readonly atMs: number; readonly run: () => void }[] = [];

  monotonicMs(): number {
    return this.nowMs;
  }

  wallMs(): number {
    return this.nowMs;
  }

  after(ms: number, run: () => void): () => void {
    const timer = { atMs: this.nowMs + ms, run };
    this.due.push(timer);
    return () => {
      this.due = this.due.filter((t) => t !== timer);
    };
  }

  advance(ms: number): void {
    this.nowMs += ms;
    const ready = this.due.filter((t) => t.atMs <= this.nowMs).sort((a, b) => a.atMs - b.atMs);
    this.due = this.due.filter((t) => t.atMs > this.nowMs);
    for (const t of ready) t.run();
  }
}
