import {
  done,
  type Lifecycle,
  type LifecycleKey,
  lifecycleKey,
  type Outcome,
  refused,
} from '@plane3/protocol';
import { askPort } from './ask-port.ts';
import { initial, step } from './machine.ts';
import type {
  GenerationState,
  MembershipRow,
  MembershipState,
  StoreRefusal,
} from './membership.ts';
import {
  type Answer,
  type AnyAnswer,
  type Counters,
  DEFAULT_SETTINGS,
  type Decision,
  type Event,
  type Joined,
  type Left,
  type RequestId,
  type Retired,
  type Settings,
  type State,
} from './model.ts';
import type { JoinRequest, LeaveRequest, RegistryPorts } from './ports.ts';
import { membershipKey } from './row.ts';
import { failure } from './work.ts';

export interface ListedMembership {
  readonly channel: string;
  readonly generation: number;
  readonly joinCursor: number;
  /** `false`: recorded, its backlog is still being copied. */
  readonly activated: boolean;
}

export interface RegistryStatus {
  readonly state: 'starting' | 'serving' | 'not-current' | 'recreated' | 'stopped';
  /** Rows in every state; {@link byState} splits them. */
  readonly rows: number;
  readonly byState: Readonly<Record<MembershipState, number>>;
  /** (channel, lifecycle) pairs that are being worked on, with or without somebody waiting. */
  readonly working: number;
  readonly requests: number;
  readonly currentAgeMs: number;
  readonly counters: Readonly<Counters>;
}

type ChangeListener = (
  channel: string,
  member: LifecycleKey,
  row: MembershipRow | undefined,
) => void;

/**
 * Who is a durable member of which channel, in which interval. Answers about members come from
 * memory; requests are answered within `answerWithinMs`, and never `durable` before they are.
 */
export class Registry {
  readonly #ports: RegistryPorts;
  readonly #state: State;
  readonly #events: Event[] = [];
  readonly #waiting = new Map<RequestId, (answer: AnyAnswer) => void>();
  readonly #bounds = new Map<RequestId, () => void>();
  /** Cancels of back-off timers. */
  readonly #timers = new Set<() => void>();
  readonly #listeners = new Set<ChangeListener>();
  #nextRequest: RequestId = 1;
  #stepping = false;
  #stopped = false;

  /** `writer`: incarnation of this process. */
  constructor(ports: RegistryPorts, writer: string, settings: Partial<Settings> = {}) {
    this.#ports = ports;
    this.#state = initial(writer, { ...DEFAULT_SETTINGS, ...settings });
  }

  /**
   * Loads every row and begins to finish what an earlier process left half done. To be called
   * under the lease and before fan-out decides its first post.
   */
  async start(): Promise<Outcome<void, StoreRefusal | 'stopped'>> {
    const frontier = await this.#ports.frontier.read(undefined);
    if (frontier.kind === 'unknown') return frontier;
    if (frontier.kind === 'refused') return refused('rejected', `frontier: ${frontier.detail}`);
    const early: Event[] = [];
    let hear = (event: Event): void => void early.push(event);
    const rows = await this.#ports.store.load({
      changed: (key, row, revision) => hear({ kind: 'row-changed', key, row, revision }),
      recreated: () => hear({ kind: 'store-recreated' }),
    });
    if (rows.kind !== 'done') return rows;
    if (this.#stopped) return refused('stopped');
    const { incarnation } = frontier.value;
    this.#send({ kind: 'loaded', rows: rows.value, incarnation });
    hear = (event) => this.#send(event);
    for (const event of early) hear(event);
    return done(undefined);
  }

  /** At once: nothing is begun, nothing answered any more; open requests get `unavailable`. */
  async stop(): Promise<void> {
    if (this.#stopped) return;
    this.#stopped = true;
    for (const cancel of [...this.#bounds.values(), ...this.#timers]) cancel();
    const why = failure('unavailable', 'unknown', 'the registry stops');
    for (const answer of [...this.#waiting.values()]) answer(why);
    this.#waiting.clear();
    await this.#ports.store.close();
  }

  join(r: JoinRequest): Promise<Answer<Joined>> {
    return this.#request((request) => ({ kind: 'join-asked', request, ...r }));
  }

  /** Needs no right to read. */
  leave(r: LeaveRequest): Promise<Answer<Left>> {
    return this.#request((request) => ({ kind: 'leave-asked', request, ...r }));
  }

  /** Closes and removes every membership of the lifecycle; its rights row says so already. */
  retire(lifecycle: Lifecycle): Promise<Answer<Retired>> {
    return this.#request((request) => ({ kind: 'retire-asked', request, lifecycle }));
  }

  /** Present memberships; who is leaving or has left is not listed. */
  list(lifecycle: Lifecycle): ListedMembership[] {
    const out: ListedMembership[] = [];
    for (const { row } of this.#state.rows.ofMember(lifecycleKey(lifecycle))) {
      if (row.state !== 'joining' && row.state !== 'active') continue;
      const { channel, generation, joinCursor } = row;
      out.push({ channel, generation, joinCursor, activated: row.state === 'active' });
    }
    return out.sort((a, b) => (a.channel < b.channel ? -1 : 1));
  }

  /** Rows that are owed the post at `seq`. To be read through at once, within one decision. */
  *membersOf(channel: string, seq: number): Generator<MembershipRow, void> {
    for (const row of this.#state.rows.owedIn(channel).values())
      if (row.joinCursor < seq && row.incarnation === this.#state.incarnation) yield row;
  }

  /** Every row of the channel, in whatever state. */
  rowsOf(channel: string): Iterable<MembershipRow> {
    return this.#state.rows.ofChannel(channel);
  }

  membershipOf(member: LifecycleKey, channel: string): MembershipRow | undefined {
    return this.#state.rows.get(membershipKey(channel, member))?.row;
  }

  /** What becomes of an entry of that generation. Anything but `active` keeps it in the store. */
  generationState(member: LifecycleKey, channel: string, generation: number): GenerationState {
    if (!this.isCurrent()) return { state: 'cannot-tell' };
    const row = this.membershipOf(member, channel);
    if (row === undefined) return { state: 'absent' };
    if (generation > row.generation) return { state: 'cannot-tell' };
    if (generation === row.generation) return { state: row.state, interval: row };
    const interval = row.past.find((i) => i.generation === generation);
    // A recreated channel stream ended it, no leave did: what is stored of it is still owed.
    const open = interval !== undefined && (row.state === 'joining' || row.state === 'active');
    return open ? { state: 'active', interval } : { state: 'closed', interval };
  }

  /** Whether the rows in memory are proved to be all there are. */
  isCurrent(): boolean {
    return !this.#stopped && this.#state.phase === 'loaded' && this.#ports.store.isCurrent();
  }

  /** Called after each change of a row in memory, whoever made it. */
  onChange(listener: ChangeListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  status(): RegistryStatus {
    const s = this.#state;
    const byState = { joining: 0, active: 0, leaving: 0, closed: 0 };
    for (const { row } of s.rows.values()) byState[row.state]++;
    return {
      state: this.#statusState(),
      rows: s.rows.size,
      byState,
      working: s.tasks.size,
      requests: s.open.size,
      currentAgeMs: this.#ports.clock.monotonicMs() - this.#ports.store.currentAsOfMs(),
      counters: { ...s.counters },
    };
  }

  #statusState(): RegistryStatus['state'] {
    if (this.#stopped) return 'stopped';
    if (this.#state.phase === 'recreated') return 'recreated';
    if (this.#state.phase === 'empty') return 'starting';
    return this.#ports.store.isCurrent() ? 'serving' : 'not-current';
  }

  #request<T>(eventOf: (request: RequestId) => Event): Promise<Answer<T>> {
    if (this.#stopped)
      return Promise.resolve(failure('unavailable', 'not-executed', 'the registry is stopped'));
    return new Promise((ok) => {
      const request = this.#nextRequest++;
      this.#waiting.set(request, (a) => ok(a as Answer<T>));
      this.#send(eventOf(request));
    });
  }

  /** One event after the other, also when a port answers within the call. */
  #send(event: Event): void {
    this.#events.push(event);
    if (this.#stepping) return;
    this.#stepping = true;
    try {
      for (let e = this.#events.shift(); e !== undefined; e = this.#events.shift()) {
        if (this.#stopped) continue;
        for (const d of step(this.#state, e).decisions) if (!this.#stopped) this.#perform(d);
      }
    } finally {
      this.#stepping = false;
    }
  }

  #perform(d: Decision): void {
    switch (d.kind) {
      case 'answer':
        this.#answer(d.request, d.answer);
        return;
      case 'bound':
        this.#bounds.set(
          d.request,
          this.#ports.timers.after(d.ms, () =>
            this.#send({ kind: 'bound-over', request: d.request }),
          ),
        );
        return;
      case 'report':
        this.#tell(() => this.#ports.report?.(d.report));
        return;
      case 'changed':
        for (const l of [...this.#listeners]) this.#tell(() => l(d.channel, d.member, d.row));
        return;
      case 'wait': {
        const cancel = this.#ports.timers.after(d.ms, () => {
          this.#timers.delete(cancel);
          this.#send({ kind: 'wait-over', key: d.key, token: d.token });
        });
        this.#timers.add(cancel);
        return;
      }
      case 'read-decided':
        this.#send({
          kind: 'decided-read',
          key: d.key,
          token: d.token,
          decided: this.#ports.position.decided(),
        });
        return;
      default:
        void askPort(this.#ports, d).then((event) => this.#send(event));
    }
  }

  /** A listener that throws must not keep the other decisions from being carried out. */
  #tell(listener: () => void): void {
    try {
      listener();
    } catch (e) {
      queueMicrotask(() => {
        throw e;
      });
    }
  }

  #answer(request: RequestId, a: AnyAnswer): void {
    this.#bounds.get(request)?.();
    this.#bounds.delete(request);
    const answer = this.#waiting.get(request);
    this.#waiting.delete(request);
    answer?.(a);
  }
}
