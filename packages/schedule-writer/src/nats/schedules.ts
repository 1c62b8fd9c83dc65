import type { ApiRefusal, JetStreamApi, Publisher, StoredMessage } from '@plane3/link';
import {
  BROKER_HEADERS,
  done,
  HEADER,
  type Outcome,
  parseRecord,
  refused,
  type TimerSubject,
  timerRequestSchema,
  timerSubject,
} from '@plane3/protocol';
import type { Armed, ArmedSeen, ArmOrder, FiredSeen } from '../model.ts';
import type { ArmRefusal, Schedules } from '../ports.ts';

const SCHEDULE = 'Nats-Schedule';
const TARGET = 'Nats-Schedule-Target';
/** On a fire: the armed subject that the broker's scheduler fired. */
const SCHEDULER = 'Nats-Scheduler';

const encoder = new TextEncoder();

/** RFC 3339 in UTC with milliseconds, as the broker's scheduler reads it. */
const at = (ms: number): string => `@at ${new Date(ms).toISOString()}`;

/** The armed and fire subjects of a space, in its timer stream. */
export class NatsSchedules implements Schedules {
  readonly #api: JetStreamApi;
  readonly #publisher: Publisher;
  readonly #stream: string;
  readonly #prefix: string;

  constructor(o: {
    readonly api: JetStreamApi;
    readonly publisher: Publisher;
    readonly stream: string;
    readonly prefix: string;
  }) {
    this.#api = o.api;
    this.#publisher = o.publisher;
    this.#stream = o.stream;
    this.#prefix = o.prefix;
  }

  async armed(timer: TimerSubject): Promise<ArmedSeen> {
    const last = await this.#last(timer, 'armed');
    if (last.kind !== 'done') return { kind: 'unknown', cause: causeOf(last) };
    const m = last.value;
    if (m === undefined) return { kind: 'nothing' };
    const armed = this.#read(m, timer);
    return armed === undefined
      ? { kind: 'planted', seq: m.seq }
      : { kind: 'schedule', seq: m.seq, armed };
  }

  async lastFire(timer: TimerSubject): Promise<FiredSeen> {
    const last = await this.#last(timer, 'fire');
    if (last.kind !== 'done') return { kind: 'unknown', cause: causeOf(last) };
    const m = last.value;
    if (m === undefined || m.header(SCHEDULER) !== this.#subject(timer, 'armed'))
      return { kind: 'none' };
    const body = parseRecord(timerRequestSchema, m.body);
    if (body === undefined || body.timerId !== timer.timerId) return { kind: 'none' };
    return { kind: 'fired', generation: body.generation };
  }

  async arm(order: ArmOrder): Promise<Outcome<number, ArmRefusal>> {
    const stored = await this.#publisher.publish(
      this.#subject(order.timer, 'armed'),
      encoder.encode(JSON.stringify(order.body)),
      [
        [SCHEDULE, at(order.atMs)],
        [TARGET, this.#subject(order.timer, 'fire')],
        [HEADER.expectSubjectSeq, String(order.expectedSeq)],
      ],
    );
    if (stored.kind === 'done') return done(stored.value.seq);
    if (stored.kind === 'unknown') return stored;
    const { reason, detail } = stored;
    return refused(reason === 'too-large' ? 'rejected' : reason, detail);
  }

  async disarm(timer: TimerSubject, seq: number): Promise<Outcome<number, ArmRefusal>> {
    const purged = await this.#api.purge(this.#stream, {
      subject: this.#subject(timer, 'armed'),
      upToSeq: seq + 1,
    });
    if (purged.kind !== 'refused') return purged;
    const { reason, detail } = purged;
    if (reason === 'not-found') return refused('no-stream', detail);
    return refused(reason === 'permission-denied' ? reason : 'rejected', detail);
  }

  #subject(timer: TimerSubject, verb: 'armed' | 'fire'): string {
    return timerSubject(this.#prefix, { ...timer, verb });
  }

  #last(
    timer: TimerSubject,
    verb: 'armed' | 'fire',
  ): Promise<Outcome<StoredMessage | undefined, ApiRefusal>> {
    return this.#api.lastOf(this.#stream, this.#subject(timer, verb));
  }

  /** Only what this writer would arm itself counts; anything else is replaced. */
  #read(m: StoredMessage, timer: TimerSubject): Armed | undefined {
    if (BROKER_HEADERS.some((h) => m.header(h) !== undefined)) return undefined;
    if (m.header(TARGET) !== this.#subject(timer, 'fire')) return undefined;
    const body = parseRecord(timerRequestSchema, m.body);
    if (body === undefined || body.timerId !== timer.timerId) return undefined;
    const { generation, deadline: deadlineMs } = body;
    return isDate(deadlineMs) && m.header(SCHEDULE) === at(deadlineMs)
      ? { generation, deadlineMs }
      : undefined;
  }
}

const DATE_MS_MAX = 8.64e15;
const isDate = (ms: number): boolean => ms >= 0 && ms <= DATE_MS_MAX;

const causeOf = (o: Exclude<Outcome<unknown, ApiRefusal>, { kind: 'done' }>): string =>
  o.kind === 'unknown' ? o.cause : `${o.reason} ${o.detail}`.trim();
