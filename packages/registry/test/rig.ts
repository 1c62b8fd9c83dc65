import { done, type Lifecycle, lifecycleKey, type Outcome } from '@plane3/protocol';
import {
  type Answer,
  type Boundary,
  type CatchUpRange,
  encodeRow,
  type MembershipRow,
  type MembershipStore,
  membershipKey,
  Registry,
  type RegistryPorts,
  type Report,
  type RightAnswer,
  type SeqRange,
  type Settings,
} from '@plane3/registry';
import { MemoryChannelStream, MemoryMembers, MemoryMembershipStore } from '@plane3/registry/memory';

export const lifecycle = (actor: string, mark = actor[0] ?? 'x'): Lifecycle => ({
  owner: 'local',
  actor,
  uid: mark.repeat(26),
});
export const alice = lifecycle('alice');
export const bob = lifecycle('bob');

/** Timers that run when the test says so. */
class Timers {
  readonly #due = new Map<object, { readonly ms: number; readonly run: () => void }>();
  after(ms: number, run: () => void): () => void {
    const id = {};
    this.#due.set(id, { ms, run });
    return () => void this.#due.delete(id);
  }
  get size(): number {
    return this.#due.size;
  }
  /** Runs everything that is due within `ms`. */
  run(ms: number): void {
    for (const [id, t] of [...this.#due]) {
      if (t.ms > ms) continue;
      this.#due.delete(id);
      t.run();
    }
  }
}

/** A port call that the test lets go on. */
export class Held<A, T> {
  readonly waiting: { readonly arg: A; readonly go: (o: Outcome<T>) => void }[] = [];
  call(arg: A): Promise<Outcome<T>> {
    return new Promise((go) => this.waiting.push({ arg, go }));
  }
}

/** What several processes of one space have in common. */
export class Space {
  readonly members = new MemoryMembers();
  readonly chat = new MemoryChannelStream();
  /** Channel of each post; sequence = index + 1. */
  posts: string[] = [];
  decided = 0;
  readonly copies = new Set<string>();
  right: RightAnswer = 'allow';
  rightsAsked = 0;
  lost: SeqRange | undefined;
  readonly closed: Boundary[] = [];

  post(channel: string): number {
    this.posts.push(channel);
    return this.chat.post();
  }

  copiesOf(who: Lifecycle): string[] {
    return [...this.copies].filter((c) => c.startsWith(lifecycleKey(who))).sort();
  }

  rowOf(who: Lifecycle, channel: string): MembershipRow | undefined {
    const cell = this.members.get(membershipKey(channel, lifecycleKey(who)));
    if (cell === undefined) return undefined;
    return JSON.parse(new TextDecoder().decode(cell.bytes)) as MembershipRow;
  }

  /** Another process writes; whatever revision is there. */
  plant(row: MembershipRow): void {
    const key = membershipKey(row.channel, row.member);
    this.members.set(key, encodeRow(row), this.members.get(key)?.revision ?? 0);
  }
}

export interface Process {
  readonly registry: Registry;
  readonly timers: Timers;
  readonly reports: Report[];
  /** Fan-out decides everything that is posted. */
  decide(): void;
}

let processes = 0;

export function boot(
  space: Space,
  o: {
    readonly ports?: Partial<RegistryPorts>;
    readonly settings?: Partial<Settings>;
    readonly store?: (inner: MembershipStore) => MembershipStore;
  } = {},
): Process {
  const timers = new Timers();
  const reports: Report[] = [];
  const inner = new MemoryMembershipStore(space.members);
  const ports: RegistryPorts = {
    store: o.store === undefined ? inner : o.store(inner),
    frontier: space.chat,
    position: {
      decided: () => ({ incarnation: space.chat.incarnation, seq: space.decided }),
    },
    catchUp: { copy: async (r) => done(copyAll(space, r)) },
    boundary: { close: async (b) => done({ disposed: dispose(space, b) }) },
    rights: {
      ask: async () => {
        space.rightsAsked++;
        return space.right;
      },
    },
    clock: { monotonicMs: () => performance.now() },
    timers,
    report: (r) => reports.push(r),
    ...o.ports,
  };
  const registry = new Registry(ports, `w${++processes}`, o.settings);
  const decide = (): void => {
    while (space.decided < space.posts.length) {
      const seq = space.decided + 1;
      const channel = space.posts[seq - 1] as string;
      for (const row of registry.membersOf(channel, seq))
        space.copies.add(`${row.member} ${channel} ${row.generation} ${seq}`);
      space.decided = seq;
    }
  };
  return { registry, timers, reports, decide };
}

export async function started(space: Space, o: Parameters<typeof boot>[1] = {}): Promise<Process> {
  const p = boot(space, o);
  const s = await p.registry.start();
  if (s.kind !== 'done') throw new Error(JSON.stringify(s));
  return p;
}

export function copyAll(space: Space, r: CatchUpRange): { lost?: SeqRange } {
  for (let seq = r.from + 1; seq <= r.to; seq++)
    if (space.posts[seq - 1] === r.row.channel)
      space.copies.add(`${r.row.member} ${r.row.channel} ${r.row.generation} ${seq}`);
  return space.lost === undefined ? {} : { lost: space.lost };
}

export function dispose(space: Space, b: Boundary): number {
  space.closed.push(b);
  let disposed = 0;
  for (const c of [...space.copies])
    if (c.startsWith(`${b.member} ${b.channel} ${b.generation} `)) {
      space.copies.delete(c);
      disposed++;
    }
  return disposed;
}

export function ok<T>(a: Answer<T>): T {
  if (!a.ok) throw new Error(JSON.stringify(a));
  return a.data;
}

export function codeOf(a: Answer<unknown>): string {
  return a.ok ? 'ok' : `${a.code} ${a.outcome}`;
}
