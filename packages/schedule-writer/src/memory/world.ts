import {
  type CheckpointStatus,
  done,
  type Outcome,
  refused,
  type TimerSubject,
  timerSubject,
  unknown,
} from '@plane3/protocol';
import type {
  Armed,
  ArmedSeen,
  ArmOrder,
  CheckpointSeen,
  FiredSeen,
  RequestFacts,
} from '../model.ts';
import type {
  ArmRefusal,
  Checkpoints,
  Delivery,
  OpenRefusal,
  RequestSource,
  Schedules,
  Session,
  Sessions,
  SourceRefusal,
} from '../ports.ts';
import type { MemoryTimers } from './timers.ts';

/** What the next calls of a kind answer instead of working. */
export interface MemoryFault {
  readonly on: 'open' | 'pull' | 'status' | 'armed' | 'arm' | 'lastFire';
  readonly times: number;
  readonly with:
    | { readonly kind: 'unknown' }
    | { readonly kind: 'refused'; readonly reason: string }
    | { readonly kind: 'throw' }
    /** Never answers. */
    | { readonly kind: 'hang' }
    /** The call has its effect, and its answer is lost. */
    | { readonly kind: 'answer-lost' };
}

interface Queued {
  readonly facts: RequestFacts;
  deliveries: number;
  state: 'ready' | 'out' | 'later' | 'done' | 'terminated';
  reason?: string;
  cancel: () => void;
}

interface Subject {
  seq: number;
  armed: Armed | 'planted';
  cancel: () => void;
}

/** Broker, vault and agents in memory: the request stream, the timer stream and the status rows. */
export class MemoryWorld implements Sessions {
  readonly prefix: string;
  readonly timers: MemoryTimers;
  readonly fires: {
    readonly subject: string;
    readonly generation: number;
    readonly atMs: number;
  }[] = [];
  readonly #ackWaitMs: number;
  readonly #queue: Queued[] = [];
  readonly #statuses = new Map<string, CheckpointStatus | 'unreadable'>();
  readonly #armed = new Map<string, Subject>();
  readonly #faults: { fault: MemoryFault; left: number }[] = [];
  #seq = 0;
  #ready: () => void = () => {};
  opens = 0;

  constructor(
    timers: MemoryTimers,
    o: { readonly prefix?: string; readonly ackWaitMs?: number } = {},
  ) {
    this.timers = timers;
    this.prefix = o.prefix ?? 'cotal.main';
    this.#ackWaitMs = o.ackWaitMs ?? 1_000;
  }

  /** An agent publishes; whether it makes sense is the writer's question. */
  request(facts: RequestFacts): void {
    this.#queue.push({ facts, deliveries: 0, state: 'ready', cancel: () => {} });
    this.#ready();
  }

  setStatus(endpoint: string, timerId: string, s: CheckpointStatus | 'unreadable'): void {
    this.#statuses.set(`${endpoint}.${timerId}`, s);
  }

  /** A message without schedule headers lands on an armed subject. */
  plant(timer: TimerSubject): void {
    const subject = this.#armedSubject(timer);
    this.#armed.get(subject)?.cancel();
    this.#armed.set(subject, { seq: ++this.#seq, armed: 'planted', cancel: () => {} });
  }

  /** Sessions that are open at this moment. */
  openNow = 0;

  clearFaults(): void {
    this.#faults.length = 0;
  }

  inject(fault: MemoryFault): void {
    this.#faults.push({ fault, left: fault.times });
  }

  /** How requests ended: `terminated: <reason>`, `done`, or that they are still under way. */
  outcomes(): readonly string[] {
    return this.#queue.map((q) =>
      q.state === 'terminated' ? `terminated: ${q.reason}` : q.state === 'done' ? 'done' : 'open',
    );
  }

  async open(): Promise<Outcome<Session, OpenRefusal>> {
    this.opens++;
    const failed = this.#fault<OpenRefusal>('open');
    if (typeof failed === 'object') return failed;
    const life = { closed: false };
    this.openNow++;
    let endPull: () => void = () => {};
    return done({
      requests: this.#source(life, (f) => {
        endPull = f;
      }),
      checkpoints: this.#checkpoints(),
      schedules: this.#schedules(),
      close: async () => {
        if (!life.closed) this.openNow--;
        life.closed = true;
        endPull();
      },
    });
  }

  #fault<R extends string>(on: MemoryFault['on']) {
    const hit = this.#faults.find((f) => f.fault.on === on && f.left > 0);
    if (hit === undefined) return undefined;
    hit.left--;
    const w = hit.fault.with;
    if (w.kind === 'throw') throw new Error(`planted in ${on}`);
    if (w.kind === 'answer-lost' || w.kind === 'hang') return w.kind;
    return w.kind === 'unknown' ? unknown('planted') : refused(w.reason as R, 'planted');
  }

  #source(life: { closed: boolean }, onEnd: (f: () => void) => void): RequestSource {
    const pull = (
      countMax: number,
      waitMs: number,
      onRequest: (d: Delivery) => void,
    ): Promise<Outcome<number, SourceRefusal>> => {
      const failed = this.#fault<SourceRefusal>('pull');
      if (typeof failed === 'object') return Promise.resolve(failed);
      return new Promise((ok) => {
        let count = 0;
        const cancel = this.timers.after(waitMs, () => end(done(count)));
        const end = (o: Outcome<number, SourceRefusal>): void => {
          cancel();
          this.#ready = () => {};
          ok(o);
        };
        onEnd(() => end(unknown('closed')));
        this.#ready = () => {
          for (const q of this.#queue) {
            if (count >= countMax) break;
            if (q.state !== 'ready') continue;
            count++;
            onRequest(this.#deliver(q, life));
          }
          if (count >= countMax) end(done(count));
        };
        this.#ready();
      });
    };
    return { pull, strays: () => 0 };
  }

  #deliver(q: Queued, life: { closed: boolean }): Delivery {
    q.deliveries++;
    q.state = 'out';
    const again = (delayMs: number, state: 'out' | 'later'): void => {
      q.state = state;
      q.cancel();
      q.cancel = this.timers.after(delayMs, () => {
        q.state = 'ready';
        this.#ready();
      });
    };
    again(this.#ackWaitMs, 'out');
    const answer = (f: () => void): void => {
      if (life.closed || q.state !== 'out') return;
      q.cancel();
      f();
    };
    return {
      facts: q.facts,
      deliveries: q.deliveries,
      done: () =>
        answer(() => {
          q.state = 'done';
        }),
      retry: (delayMs) => answer(() => again(delayMs, 'later')),
      terminate: (reason) =>
        answer(() => {
          q.state = 'terminated';
          q.reason = reason;
        }),
    };
  }

  #checkpoints(): Checkpoints {
    return {
      status: async (endpoint, timerId): Promise<CheckpointSeen> => {
        if (this.#fault('status') !== undefined) return { kind: 'unknown', cause: 'planted' };
        const s = this.#statuses.get(`${endpoint}.${timerId}`);
        if (s === undefined) return { kind: 'absent' };
        return s === 'unreadable' ? { kind: 'unreadable' } : { kind: 'status', status: s };
      },
    };
  }

  #schedules(): Schedules {
    return {
      armed: async (timer): Promise<ArmedSeen> => {
        if (this.#fault('armed') !== undefined) return { kind: 'unknown', cause: 'planted' };
        const s = this.#armed.get(this.#armedSubject(timer));
        if (s === undefined) return { kind: 'nothing' };
        if (s.armed === 'planted') return { kind: 'planted', seq: s.seq };
        return { kind: 'schedule', seq: s.seq, armed: s.armed };
      },
      lastFire: async (timer): Promise<FiredSeen> => {
        if (this.#fault('lastFire') !== undefined) return { kind: 'unknown', cause: 'planted' };
        const subject = timerSubject(this.prefix, { ...timer, verb: 'fire' });
        const last = this.fires.findLast((f) => f.subject === subject);
        return last === undefined
          ? { kind: 'none' }
          : { kind: 'fired', generation: last.generation };
      },
      arm: async (order) => {
        const failed = this.#fault<ArmRefusal>('arm');
        if (failed === 'hang') return new Promise(() => {});
        if (typeof failed === 'object') return failed;
        const o = this.#arm(order);
        return failed === 'answer-lost' ? unknown('planted') : o;
      },
      disarm: async (timer, seq) => {
        const subject = this.#armedSubject(timer);
        const s = this.#armed.get(subject);
        if (s === undefined || s.seq > seq) return done(0);
        s.cancel();
        this.#armed.delete(subject);
        return done(1);
      },
    };
  }

  #arm(order: ArmOrder): Outcome<number, ArmRefusal> {
    const subject = this.#armedSubject(order.timer);
    const last = this.#armed.get(subject);
    if ((last?.seq ?? 0) !== order.expectedSeq)
      return refused('wrong-sequence', `${last?.seq ?? 0}`);
    last?.cancel();
    const seq = ++this.#seq;
    const { generation, deadline } = order.body;
    const cancel = this.timers.after(Math.max(0, order.atMs - this.timers.wallMs()), () => {
      this.#armed.delete(subject);
      const fire = timerSubject(this.prefix, { ...order.timer, verb: 'fire' });
      this.fires.push({ subject: fire, generation, atMs: this.timers.wallMs() });
    });
    this.#armed.set(subject, { seq, armed: { generation, deadlineMs: deadline }, cancel });
    return done(seq);
  }

  #armedSubject(timer: TimerSubject): string {
    return timerSubject(this.prefix, { ...timer, verb: 'armed' });
  }
}
