import type { Counters } from './counters.ts';
import { decide, mayHaveFired } from './decide.ts';
import { judge } from './judge.ts';
import type { FailureKind } from './machine.ts';
import type {
  ArmedSeen,
  CheckpointSeen,
  DecideLimits,
  Decision,
  FiredSeen,
  JudgedRequest,
} from './model.ts';
import type { Clock, Delivery, Session } from './ports.ts';

export interface PumpSettings {
  /** Requests that are judged and armed at the same time. */
  readonly concurrencyMax: number;
  /** One pull waits this long for requests; also how soon a lost answer is noticed. */
  readonly pullWaitMs: number;
  readonly retryMsMin: number;
  readonly retryMsMax: number;
  readonly limits: DecideLimits;
}

/** Reads and writes of one request before it is put back: each lost compare-and-set costs one. */
export const ARM_ATTEMPTS_MAX = 4;
/** So many requests in a row that met an outage end the session: opening it anew says why. */
export const OUTAGES_MAX = 16;

export interface PumpEnd {
  readonly failure: FailureKind;
  readonly why: string;
}

export interface PumpDeps {
  readonly prefix: string;
  readonly session: Session;
  readonly clock: Clock;
  readonly counters: Counters;
  readonly settings: PumpSettings;
}

const NOTHING: ArmedSeen = { kind: 'nothing' };
const NONE: FiredSeen = { kind: 'none' };

/** From the durable to armed schedules, in one life of the session. */
export class Pump {
  readonly #d: PumpDeps;
  #inFlight = 0;
  #outages = 0;
  #stopping = false;
  #end: PumpEnd | undefined;
  #wake: (() => void) | undefined;

  constructor(deps: PumpDeps) {
    this.#d = deps;
  }

  get inFlight(): number {
    return this.#inFlight;
  }

  /** Runs until something fails; `undefined` after {@link stop}. */
  async run(): Promise<PumpEnd | undefined> {
    const { session, settings, counters } = this.#d;
    let straysSeen = 0;
    while (!this.#stopping && this.#end === undefined) {
      // Half the window, so that a pull is worth its round trip.
      await this.#below(Math.ceil(settings.concurrencyMax / 2));
      if (this.#stopping || this.#end !== undefined) break;
      const room = settings.concurrencyMax - this.#inFlight;
      const pulled = await session.requests.pull(room, settings.pullWaitMs, (d) => this.#take(d));
      const strays = session.requests.strays();
      counters.add('strays', strays - straysSeen);
      straysSeen = strays;
      if (pulled.kind === 'unknown') this.#fail('fault', `pull: ${pulled.cause}`);
      else if (pulled.kind === 'refused')
        this.#fail('unavailable', `pull: ${pulled.reason} ${pulled.detail}`);
    }
    return this.#stopping ? undefined : this.#end;
  }

  /** Takes nothing more; resolves when all that was taken has been answered. */
  async stop(): Promise<void> {
    this.#stopping = true;
    this.#wake?.();
    await this.#below(1);
  }

  async #below(count: number): Promise<void> {
    while (this.#inFlight >= count) {
      await new Promise<void>((ok) => {
        const before = this.#wake;
        this.#wake = () => {
          before?.();
          ok();
        };
      });
    }
  }

  #fail(failure: FailureKind, why: string): void {
    this.#end ??= { failure, why };
  }

  #take(d: Delivery): void {
    const { counters, prefix, clock } = this.#d;
    if (this.#stopping || this.#end !== undefined) {
      d.retry(0);
      return;
    }
    counters.add('received');
    const judged = judge(prefix, d.facts);
    if (judged.kind === 'refuse') {
      counters.refuse(d.facts.subject, judged, clock.wallMs());
      d.terminate(judged.reason);
      return;
    }
    this.#inFlight++;
    this.#handle(judged, d)
      .catch((e: unknown) => {
        counters.add('defects');
        this.#putBack(d, 'outage', `defect: ${e instanceof Error ? e.message : String(e)}`);
      })
      .finally(() => {
        this.#inFlight--;
        const wake = this.#wake;
        this.#wake = undefined;
        wake?.();
      });
  }

  async #handle(judged: JudgedRequest, d: Delivery): Promise<void> {
    let why = 'lost every compare-and-set';
    for (let attempt = 1; attempt <= ARM_ATTEMPTS_MAX; attempt++) {
      const decision = await this.#look(judged, d.deliveries, attempt);
      if (decision.kind !== 'arm' && decision.kind !== 'fire-now')
        return this.#conclude(judged, d, decision);
      const stored = await this.#d.session.schedules.arm(decision.order);
      if (stored.kind === 'done') {
        this.#d.counters.add(decision.kind === 'arm' ? 'armed' : 'firedNow');
        return this.#answered(d);
      }
      // Unknown: perhaps it is stored. Reading it back decides, as after a lost compare-and-set.
      if (stored.kind === 'unknown') why = `arm: ${stored.cause}`;
      else if (stored.reason !== 'wrong-sequence') {
        why = `arm: ${stored.reason} ${stored.detail}`;
        if (stored.reason === 'no-stream' || stored.reason === 'permission-denied')
          this.#fail('unavailable', why);
        return this.#putBack(d, stored.reason === 'rejected' ? 'request' : 'outage', why);
      }
    }
    this.#putBack(d, 'outage', why);
  }

  /**
   * A request that comes for the first time is most likely the first for its timer: it is armed as
   * if nothing stood there, and the compare-and-set corrects that. Saves one read of two.
   */
  async #look(judged: JudgedRequest, deliveries: number, attempt: number): Promise<Decision> {
    const { session, clock, settings } = this.#d;
    const { timer } = judged;
    const { limits } = settings;
    const isFirst = deliveries === 1 && attempt === 1;
    const [checkpoint, seen] = await Promise.all([
      session.checkpoints.status(timer.endpoint, timer.timerId),
      isFirst ? NOTHING : session.schedules.armed(timer),
    ]);
    const fired = await this.#firedOf(judged, checkpoint);
    const nowMs = clock.wallMs();
    const input = { judged, checkpoint, fired, deliveries, nowMs, limits };
    const decision = decide({ ...input, armed: seen });
    if (!isFirst || decision.kind !== 'settled') return decision;
    return decide({ ...input, armed: await session.schedules.armed(timer) });
  }

  async #firedOf(judged: JudgedRequest, checkpoint: CheckpointSeen): Promise<FiredSeen> {
    if (checkpoint.kind !== 'status') return NONE;
    const { deadline, state } = checkpoint.status;
    if (state !== 'waiting' || !mayHaveFired(deadline, this.#d.clock.wallMs())) return NONE;
    return this.#d.session.schedules.lastFire(judged.timer);
  }

  async #conclude(
    judged: JudgedRequest,
    d: Delivery,
    decision: Exclude<Decision, { kind: 'arm' | 'fire-now' }>,
  ): Promise<void> {
    const { counters, clock, session } = this.#d;
    switch (decision.kind) {
      case 'already-armed':
        counters.add('alreadyArmed');
        return this.#answered(d);
      case 'already-fired':
        counters.add('alreadyFired');
        return this.#answered(d);
      case 'stale':
        counters.add('stale');
        return this.#answered(d);
      case 'settled': {
        if (decision.disarmSeq > 0) {
          const o = await session.schedules.disarm(judged.timer, decision.disarmSeq);
          if (o.kind !== 'done') {
            const why = o.kind === 'unknown' ? o.cause : `${o.reason} ${o.detail}`;
            return this.#putBack(d, 'outage', `disarm: ${why}`);
          }
        }
        counters.add('settled');
        return this.#answered(d);
      }
      case 'refuse':
        counters.refuse(d.facts.subject, decision, clock.wallMs());
        this.#outages = 0;
        return d.terminate(decision.reason);
      case 'retry':
        return this.#putBack(d, decision.blame, decision.why);
    }
  }

  #answered(d: Delivery): void {
    this.#outages = 0;
    d.done();
  }

  #putBack(d: Delivery, blame: 'outage' | 'request', why: string): void {
    const { counters, settings } = this.#d;
    counters.add('retried');
    const doublings = Math.min(d.deliveries - 1, 30);
    d.retry(Math.min(settings.retryMsMax, settings.retryMsMin * 2 ** doublings));
    if (blame === 'request') return;
    this.#outages++;
    if (this.#outages >= OUTAGES_MAX) this.#fail('fault', why);
  }
}
