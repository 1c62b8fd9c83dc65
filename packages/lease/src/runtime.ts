import { done, type Outcome } from '@plane3/protocol';
import { bounded, type Insistence, insist } from './bounded.ts';
import { checkBucket } from './bucket-check.ts';
import { establish } from './establish.ts';
import { ExpiryProof } from './expiry.ts';
import { initial, isTrusted, nextWakeMs, step } from './machine.ts';
import type {
  Decision,
  DoubtReason,
  HostVerdict,
  Identity,
  LeaseEvent,
  LeaseState,
  Refusal,
  RowRefusal,
  Timing,
} from './model.ts';
import type { RowNotice } from './ports.ts';
import { bucketRefusal } from './refusal.ts';
import type {
  Acquired,
  Fenced,
  LeaseNotice,
  LeasePorts,
  LeaseSettings,
  LeaseStatus,
} from './surface.ts';
import { TTL_MS_MIN, timingOf } from './timing.ts';

/** The imperative shell of the lease: ports and timers around `step`. Decides nothing. */
export class LeaseRuntime {
  readonly #ports: LeasePorts;
  readonly #settings: LeaseSettings;
  readonly #identity: Identity;
  readonly #listeners = new Set<(n: LeaseNotice) => void>();
  readonly #queue: LeaseEvent[] = [];
  #state: LeaseState | undefined;
  #stepping = false;
  #armed = false;
  #cancelTimer: () => void = () => {};
  #unwatch: (() => void) | undefined;
  #proof: ExpiryProof | undefined;
  #acquired: ((a: Acquired) => void) | undefined;
  #acquiring: Promise<Acquired> | undefined;
  #closing = false;
  #released: ((o: { rowLeft: boolean }) => void) | undefined;
  #releasing: Promise<{ rowLeft: boolean }> | undefined;
  #provers: { readonly sinceMs: number; readonly ready: boolean; done(held: boolean): void }[] = [];
  #counts = { renewals: 0, unanswered: 0, doubts: 0 };

  constructor(ports: LeasePorts, settings: LeaseSettings) {
    this.#ports = ports;
    this.#settings = settings;
    this.#identity = {
      holder: settings.holder,
      incarnation: settings.incarnation,
      since: ports.clock.wallMs(),
      host: ports.hostProbe.self(),
    };
  }

  /**
   * Takes the lease or says why not (I31). `waitMs`: how long a row is waited for whose holder does
   * not answer; a holder known to live is refused at once. Does not throw for anything that happens
   * in service; throws what `host.arm` throws, with nothing written. Call `release` at the end
   * whatever the answer was: an unanswered write of mine may have landed.
   */
  acquire(o: { readonly waitMs?: number } = {}): Promise<Acquired> {
    if (this.#closing) return Promise.resolve(cancelled);
    this.#acquiring ??= this.#tryAcquire(o.waitMs ?? 0);
    return this.#acquiring;
  }

  /**
   * Marks both streams with this term and proves by one later renewal that the term still held:
   * only then may the sequences be used. Call it after `acquire` and after each `regained`, before
   * anything is read.
   */
  async establishFence(): Promise<Fenced> {
    const s = this.#state;
    if (s?.phase !== 'held') return inDoubt(s);
    const leaseRevision = s.term.tookRevision;
    const { incarnation } = this.#identity;
    const { fences, timers, clock } = this.#ports;
    const seqs = { inbox: 0, dlv: 0 };
    for (const name of ['inbox', 'dlv'] as const) {
      const end = await establish({
        port: fences[name],
        mark: { incarnation, leaseRevision, at: clock.wallMs() },
        timers,
        callMs: s.timing.callTimeoutMs,
        prove: () => this.#prove(false),
      });
      if (end.kind === 'refused') return { ...end, detail: `${name}: ${end.detail}` };
      seqs[name] = end.seq;
    }
    const held = await this.#prove(false);
    const now = this.#state;
    if (!held || now?.phase !== 'held' || now.term.tookRevision !== leaseRevision)
      return inDoubt(now);
    return { kind: 'fenced', ...seqs, leaseRevision };
  }

  /** The row says ready once this is true; false: the term ended before it was stored. */
  markReady(): Promise<boolean> {
    return this.#prove(true);
  }

  /**
   * Whether a write may begin at this instant; synchronous and cheap. Ask before each write, with a
   * clock that was read after whatever may have blocked.
   */
  trusted(nowMs: number = this.#ports.clock.nowMs()): boolean {
    return this.#state !== undefined && isTrusted(this.#state, nowMs);
  }

  /**
   * Tells that a write which named the fence was refused for it. A successor may be there, or the
   * mark is gone: the lease is in doubt either way, and ends lost or regained, to be fenced anew.
   */
  fenceRefused(): void {
    this.#feed({ kind: 'fence-refused', nowMs: this.#now() });
  }

  /** Gives the row back if it is mine; at any moment, bounded, idempotent. Stop all else first. */
  release(): Promise<{ rowLeft: boolean }> {
    this.#closing = true;
    this.#releasing ??= this.#release();
    return this.#releasing;
  }

  on(listener: (n: LeaseNotice) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  status(): LeaseStatus {
    const s = this.#state;
    const held = s?.phase === 'held' ? s : undefined;
    const nowMs = this.#now();
    return {
      phase: s?.phase ?? 'idle',
      incarnation: this.#identity.incarnation,
      ttlMs: s?.timing.ttlMs,
      ready: held?.ready ?? false,
      revision: held?.term.revision,
      trustedForMs: held === undefined ? 0 : held.term.trustedUntilMs - nowMs,
      expiry: this.#proof?.verdict ?? 'pending',
      ...this.#counts,
    };
  }

  async #tryAcquire(waitMs: number): Promise<Acquired> {
    let a: Acquired | undefined;
    try {
      a = await this.#acquire(waitMs);
      return a;
    } finally {
      this.#acquiring = undefined;
      if (a?.kind !== 'held') this.#stop();
    }
  }

  async #acquire(waitMs: number): Promise<Acquired> {
    const timing = await this.#timing();
    if ('kind' in timing) return refusedWith(timing);
    if (this.#closing) return cancelled;
    const watching = await this.#watch(timing);
    if (watching !== undefined) return refusedWith(watching);
    if (this.#closing) return cancelled;
    if (!this.#armed) this.#ports.host.arm();
    this.#armed = true;
    const proof = new ExpiryProof(
      { probe: this.#ports.row.probe, timers: this.#ports.timers },
      timing,
      (verdict) => this.#tell({ kind: 'expiry', verdict }),
    );
    this.#proof = proof;
    if ((await proof.start()) === 'broken') {
      const detail = `a key outlived its age of ${timing.ttlMs} ms`;
      return refusedWith({ kind: 'expiry-broken', detail });
    }
    if (this.#closing) return cancelled;
    this.#state ??= initial(this.#identity, timing);
    const answer = new Promise<Acquired>((ok) => {
      this.#acquired = ok;
    });
    this.#feed({ kind: 'acquire', nowMs: this.#now(), waitMs });
    return answer;
  }

  /** The bucket's own age, checked; unanswered it is asked again until `startMaxMs`. */
  async #timing(): Promise<Timing | Refusal> {
    const { row } = this.#ports;
    const before = timingOf(this.#settings.expectedTtlMs ?? TTL_MS_MIN, this.#settings.timing);
    const o = await insist(this.#insistence(before, before.callTimeoutMs), () => row.settings());
    if (o.kind === 'unknown') return { kind: 'unreachable', detail: o.cause };
    if (o.kind === 'refused') return bucketRefusal(o.reason, o.detail);
    const checked = checkBucket(o.value, this.#settings.expectedTtlMs);
    return checked.ok ? timingOf(checked.ttlMs, this.#settings.timing) : checked.refusal;
  }

  async #watch(timing: Timing): Promise<Refusal | undefined> {
    if (this.#unwatch !== undefined) return undefined;
    const notice = (n: RowNotice): void =>
      this.#feed({ kind: 'noticed', nowMs: this.#now(), ...n });
    const o = await insist(this.#insistence(timing, timing.startMaxMs), () =>
      this.#ports.row.watch(notice),
    );
    if (o.kind === 'unknown') return { kind: 'unreachable', detail: o.cause };
    if (o.kind === 'refused') return bucketRefusal(o.reason, o.detail);
    this.#unwatch = o.value;
    return undefined;
  }

  #insistence(t: Timing, callMs: number): Insistence {
    const { clock, timers } = this.#ports;
    const untilMs = this.#now() + t.startMaxMs;
    return { clock, timers, callMs, retryMs: t.retryMs, untilMs, ended: () => this.#closing };
  }

  async #release(): Promise<{ rowLeft: boolean }> {
    if (this.#state === undefined) this.#stop();
    else if (this.#state.phase !== 'released') {
      const answer = new Promise<{ rowLeft: boolean }>((ok) => {
        this.#released = ok;
      });
      this.#feed({ kind: 'release', nowMs: this.#now() });
      return answer;
    }
    return { rowLeft: false };
  }

  #stop(): void {
    this.#cancelTimer();
    this.#proof?.stop();
    this.#proof = undefined;
    this.#unwatch?.();
    this.#unwatch = undefined;
  }

  /** Resolves with a renewal that began after this call, or false when the term is over. */
  #prove(ready: boolean): Promise<boolean> {
    if (this.#state?.phase !== 'held') return Promise.resolve(false);
    const nowMs = this.#now();
    return new Promise((done) => {
      this.#provers.push({ sinceMs: nowMs, ready, done });
      this.#feed({ kind: 'renew', nowMs, ready });
    });
  }

  /** One event at a time, in order, also when a listener causes the next. */
  #feed(event: LeaseEvent): void {
    this.#queue.push(event);
    if (this.#stepping) return;
    this.#stepping = true;
    try {
      for (let e = this.#queue.shift(); e !== undefined; e = this.#queue.shift()) {
        if (this.#state === undefined) continue;
        const { state, decisions } = step(this.#state, e);
        this.#state = state;
        for (const d of decisions) this.#act(d);
      }
    } finally {
      this.#stepping = false;
    }
    this.#settleProvers();
    this.#wake();
  }

  #wake(): void {
    this.#cancelTimer();
    const atMs = this.#state === undefined ? undefined : nextWakeMs(this.#state);
    if (atMs === undefined) return;
    const { clock, timers } = this.#ports;
    const inMs = Math.max(0, Math.ceil(atMs - clock.nowMs()));
    this.#cancelTimer = timers.after(inMs, () =>
      this.#feed({ kind: 'tick', nowMs: clock.nowMs() }),
    );
  }

  #act(d: Decision): void {
    const { row, hostProbe } = this.#ports;
    const written = (answer: Outcome<number, RowRefusal>, request: number): Unstamped => ({
      kind: 'written',
      request,
      answer,
    });
    switch (d.kind) {
      case 'read-row':
        this.#ask(row.read(), (answer) => ({ kind: 'read', request: d.request, answer }));
        break;
      case 'write-row':
        this.#ask(row.write(d.row, d.expectedRevision), (answer) => written(answer, d.request));
        break;
      case 'remove-row':
        this.#ask(row.remove(d.revision), (answer) => written(answer, d.request));
        break;
      case 'judge-host':
        this.#ask(
          hostProbe.judge(d.host).then((v): Outcome<HostVerdict> => done(v)),
          (o) => ({
            kind: 'judged',
            request: d.request,
            verdict: o.kind === 'done' ? o.value : 'unknown',
          }),
        );
        break;
      case 'quiesce':
        this.#quiesce(d.reason);
        break;
      case 'held':
        this.#acquiredWith({ ...d, ttlMs: this.#state?.timing.ttlMs ?? 0 });
        break;
      case 'refused':
        this.#acquiredWith(refusedWith(d.refusal));
        break;
      case 'regained':
      case 'lost':
        this.#tell(d);
        break;
      case 'renewed':
        this.#renewed(d);
        break;
      case 'released':
        this.#stop();
        this.#released?.({ rowLeft: d.rowLeft });
    }
  }

  #acquiredWith(a: Acquired): void {
    this.#acquired?.(a);
    this.#acquired = undefined;
  }

  #renewed(d: Extract<Decision, { kind: 'renewed' }>): void {
    this.#counts.renewals++;
    const proved = this.#provers.filter((p) => d.attemptMs >= p.sinceMs && (d.ready || !p.ready));
    this.#provers = this.#provers.filter((p) => !proved.includes(p));
    for (const p of proved) p.done(true);
    this.#tell({ kind: 'renewed', revision: d.revision, ready: d.ready });
  }

  #settleProvers(): void {
    if (this.#state?.phase === 'held') return;
    for (const p of this.#provers.splice(0)) p.done(false);
  }

  /** A quiesce that fails is one that never ends: the machine's bound takes the lease away. */
  #quiesce(reason: DoubtReason): void {
    const quiet = new Promise<void>((ok) => ok(this.#ports.host.quiesce(reason)));
    this.#counts.doubts++;
    this.#settleProvers();
    this.#tell({ kind: 'doubt', reason });
    void quiet.then(
      () => this.#feed({ kind: 'quiesced', nowMs: this.#now() }),
      () => {},
    );
  }

  #ask<T, R extends string>(
    call: Promise<Outcome<T, R>>,
    event: (answer: Outcome<T, R>) => Unstamped,
  ): void {
    const callMs = this.#state?.timing.callTimeoutMs ?? 0;
    void bounded(this.#ports.timers, call, callMs).then((answer) => {
      if (answer.kind === 'unknown') this.#counts.unanswered++;
      this.#feed({ ...event(answer), nowMs: this.#now() });
    });
  }

  #now(): number {
    return this.#ports.clock.nowMs();
  }

  #tell(n: LeaseNotice): void {
    for (const f of this.#listeners) f(n);
  }
}

type Stampless<E> = E extends unknown ? Omit<E, 'nowMs'> : never;
type Unstamped = Stampless<LeaseEvent>;

const refusedWith = (refusal: Refusal): Acquired => ({ kind: 'refused', refusal });
const cancelled = refusedWith({ kind: 'cancelled', detail: 'released before it was acquired' });

const inDoubt = (s: LeaseState | undefined): Fenced => ({
  kind: 'refused',
  reason: 'lease-in-doubt',
  detail: s?.phase ?? 'idle',
});
