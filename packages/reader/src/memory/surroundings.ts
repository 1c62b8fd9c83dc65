import { done, type LifecycleKey, type Outcome, type RightsRow } from '@plane3/protocol';
import type { AttachmentNews, Attachments, Clock, Memberships, Rights, Timers } from '../ports.ts';
import type { GenerationState } from '../release-policy.ts';

/** Time that only moves when told to. */
export class MemoryTime implements Clock, Timers {
  #nowMs = 0;
  #next = 1;
  readonly #due = new Map<number, { readonly atMs: number; readonly run: () => void }>();

  monotonicMs(): number {
    return this.#nowMs;
  }

  wallMs(): number {
    return this.#nowMs;
  }

  after(ms: number, run: () => void): () => void {
    const id = this.#next++;
    this.#due.set(id, { atMs: this.#nowMs + ms, run });
    return () => this.#due.delete(id);
  }

  soon(run: () => void): void {
    queueMicrotask(run);
  }

  get timers(): number {
    return this.#due.size;
  }

  /** Runs what becomes due on the way, in order, and lets each finish. */
  async advance(ms: number): Promise<void> {
    const untilMs = this.#nowMs + ms;
    for (;;) {
      await this.settle();
      let first: [number, { atMs: number; run: () => void }] | undefined;
      for (const d of this.#due)
        if (d[1].atMs <= untilMs && (first === undefined || d[1].atMs < first[1].atMs)) first = d;
      if (first === undefined) break;
      this.#due.delete(first[0]);
      this.#nowMs = Math.max(this.#nowMs, first[1].atMs);
      first[1].run();
    }
    this.#nowMs = untilMs;
    await this.settle();
  }

  /** Lets everything finish that waits for no timer. */
  async settle(): Promise<void> {
    for (let i = 0; i < SETTLE_ROUNDS; i++) await Promise.resolve();
  }
}

const SETTLE_ROUNDS = 200;

export class MemoryRights implements Rights {
  readonly rows = new Map<LifecycleKey, RightsRow>();
  current = true;

  rowOf(member: LifecycleKey): RightsRow | undefined {
    return this.rows.get(member);
  }

  isCurrent(): boolean {
    return this.current;
  }

  /** Issued for the same patterns unless told otherwise. */
  set(member: LifecycleKey, allow: readonly string[], issued: readonly string[] = allow): void {
    const revision = (this.rows.get(member)?.revision ?? 0) + 1;
    this.rows.set(member, {
      name: member.split('.')[1] ?? member,
      allowSubscribe: [...allow],
      issuedAllowSubscribe: [...issued],
      revision,
      updatedAt: 0,
    });
  }

  retire(member: LifecycleKey): void {
    const row = this.rows.get(member);
    if (row !== undefined) this.rows.set(member, { ...row, allowSubscribe: [], retiredAt: 1 });
  }
}

export class MemoryMemberships implements Memberships {
  readonly states = new Map<string, GenerationState>();
  current = true;

  set(member: LifecycleKey, channel: string, generation: number, state: GenerationState): void {
    this.states.set(`${member}|${channel}|${generation}`, state);
  }

  generationState(m: {
    readonly member: LifecycleKey;
    readonly channel: string;
    readonly generation: number;
  }): GenerationState {
    if (!this.current) return { kind: 'unknown' };
    return this.states.get(`${m.member}|${m.channel}|${m.generation}`) ?? { kind: 'none' };
  }
}

export class MemoryAttachments implements Attachments {
  readonly #listeners = new Set<(news: AttachmentNews) => void>();

  async open(
    onNews: (news: AttachmentNews) => void,
  ): Promise<Outcome<() => void, 'permission-denied'>> {
    this.#listeners.add(onNews);
    return done(() => this.#listeners.delete(onNews));
  }

  tell(news: AttachmentNews): void {
    for (const f of this.#listeners) f(news);
  }
}
