import type { Link, LinkSubscription, Msg } from '@plane3/link';
import { done, lifecycleKey, type Outcome, replySubject } from '@plane3/protocol';
import {
  type CommandTable,
  DELIVERY_COMMANDS,
  DESCRIBE_COMMAND,
  describeDocument,
  type Identity,
} from '../contract.ts';
import { encodeEnvelope, type Reply, type ReplyError } from '../envelope.ts';
import { NonceCache } from '../nonces.ts';
import { type Call, type JudgeSettings, judgeRequest, type Refusal } from '../server.ts';
import type { DeliveryHandlers, Handler, HandlerResult } from '../types.ts';
import { WORK_LIMITS, type WorkLimits, WorkQueue } from '../work-queue.ts';

/** No handler is given longer than this, whatever its caller asks. */
export const DEADLINE_MAX_MS = 60_000;
/** How long `stop` waits for running handlers after it has aborted them. */
const STOP_WAIT_MS = 500;

/** Something that should not have happened; for the host's log. Never content. */
export interface EndpointFault {
  readonly kind: 'handler-threw' | 'result-invalid' | 'reply-not-sent';
  readonly command: string;
  readonly detail: string;
}

export interface ServeOptions extends Identity {
  readonly link: Link;
  /** `cotal.<space token>`. */
  readonly prefix: string;
  readonly commands: DeliveryHandlers;
  /**
   * Whether this process may still answer: the lease is trusted. Consulted before each handler and
   * before each reply; while it says no there is no answer at all.
   */
  readonly gate?: () => boolean;
  readonly onFault?: (fault: EndpointFault) => void;
  readonly limits?: WorkLimits;
  readonly deadlineMaxMs?: number;
  readonly table?: CommandTable;
  /** Wall clock, milliseconds since the epoch. */
  readonly nowMs?: () => number;
}

type Count =
  | 'received'
  | 'executed'
  | 'failed'
  | 'ignored'
  | 'refused'
  | 'untrusted'
  | 'exhausted'
  | 'late';

export interface EndpointStats {
  readonly counts: Readonly<Record<Count, number>>;
  /** Refusals by code. */
  readonly refusals: Readonly<Record<string, number>>;
  readonly running: number;
  readonly waiting: number;
}

const failure = (
  code: ReplyError['code'],
  message: string,
  outcome: ReplyError['outcome'],
): HandlerResult => ({ ok: false, code, message, outcome });

/** A served endpoint: its class rail as a member of the queue group and its own instance rail. */
export class EndpointServer {
  readonly #o: ServeOptions;
  readonly #settings: JudgeSettings;
  readonly #nonces = new NonceCache();
  readonly #queue: WorkQueue;
  readonly #stopping = new AbortController();
  readonly #counts: Record<Count, number> = {
    received: 0,
    executed: 0,
    failed: 0,
    ignored: 0,
    refused: 0,
    untrusted: 0,
    exhausted: 0,
    late: 0,
  };
  readonly #refusals: Record<string, number> = {};
  #subscriptions: readonly LinkSubscription[] = [];

  constructor(options: ServeOptions) {
    this.#o = options;
    this.#settings = {
      prefix: options.prefix,
      endpoint: options.endpoint,
      instanceId: options.instanceId,
      epoch: options.epoch,
      commands: options.table ?? DELIVERY_COMMANDS,
      deadlineMaxMs: options.deadlineMaxMs ?? DEADLINE_MAX_MS,
    };
    this.#queue = new WorkQueue(options.limits ?? WORK_LIMITS);
  }

  /** Both rails, accepted by the broker; after a refusal none is left. */
  async start(): Promise<Outcome<void, 'permission-denied'>> {
    const { link, prefix, endpoint, instanceId } = this.#o;
    const rails = [
      { subject: `${prefix}.ep.one.${endpoint}.*.*.*.*.*`, queue: endpoint },
      { subject: `${prefix}.ep.inst.${endpoint}.${instanceId}.*.*.*.*.*` },
    ];
    for (const { subject, queue } of rails) {
      const opened = await link.subscribe(
        subject,
        (m) => this.#arrived(m),
        queue === undefined ? {} : { queue },
      );
      if (opened.kind !== 'done') {
        await this.stop();
        return opened;
      }
      this.#subscriptions = [...this.#subscriptions, opened.value];
    }
    return done(undefined);
  }

  stats(): EndpointStats {
    return {
      counts: { ...this.#counts },
      refusals: { ...this.#refusals },
      running: this.#queue.running,
      waiting: this.#queue.waiting,
    };
  }

  /** Takes nothing more, aborts what runs and waits for it, bounded. */
  async stop(): Promise<void> {
    for (const s of this.#subscriptions) s.unsubscribe();
    this.#subscriptions = [];
    this.#stopping.abort();
    let timer: NodeJS.Timeout | undefined;
    const bound = new Promise<void>((ok) => {
      timer = setTimeout(ok, STOP_WAIT_MS);
    });
    await Promise.race([this.#queue.drain(), bound]);
    clearTimeout(timer);
  }

  #trusted(): boolean {
    try {
      return this.#o.gate?.() ?? true;
    } catch {
      return false; // A gate that cannot tell does not let anything through.
    }
  }

  #arrived(m: Msg): void {
    this.#counts.received++;
    const verdict = judgeRequest(this.#settings, this.#nonces, {
      subject: m.subject,
      headerNames: m.headers?.keys() ?? [],
      body: m.data,
      nowMs: (this.#o.nowMs ?? Date.now)(),
    });
    if (verdict.kind === 'ignore') this.#counts.ignored++;
    else if (verdict.kind === 'refusal') this.#refuse(verdict);
    else this.#enqueue(verdict);
  }

  #enqueue(call: Call): void {
    const arrivedAtMs = performance.now();
    const taken = this.#queue.offer(lifecycleKey(call.caller), () => this.#run(call, arrivedAtMs));
    if (taken) return;
    this.#counts.exhausted++;
    this.#answer(call, failure('resource-exhausted', 'too many requests wait', 'not-executed'));
  }

  #refuse(r: Refusal): void {
    this.#counts.refused++;
    this.#refusals[r.code] = (this.#refusals[r.code] ?? 0) + 1;
    this.#answer(r, { ok: false, ...pick(r) });
  }

  async #run(call: Call, arrivedAtMs: number): Promise<void> {
    if (!this.#trusted()) {
      this.#counts.untrusted++;
      return;
    }
    const leftMs = call.deadlineMs - (performance.now() - arrivedAtMs);
    if (leftMs <= 0) {
      this.#counts.late++;
      this.#answer(call, failure('deadline-exceeded', 'it passed in the queue', 'not-executed'));
      return;
    }
    const deadline = new AbortController();
    const timer = setTimeout(() => {
      this.#counts.late++;
      deadline.abort();
      this.#answer(call, failure('deadline-exceeded', 'it passed in the handler', 'unknown'));
    }, leftMs);
    const signal = AbortSignal.any([deadline.signal, this.#stopping.signal]);
    const result = await this.#handle(call, leftMs, signal);
    clearTimeout(timer);
    this.#counts[result.ok ? 'executed' : 'failed']++;
    if (!deadline.signal.aborted) this.#answer(call, result);
  }

  async #handle(call: Call, deadlineMs: number, signal: AbortSignal): Promise<HandlerResult> {
    const { name } = call.command;
    if (name === DESCRIBE_COMMAND)
      return { ok: true, data: describeDocument(this.#o, this.#settings.commands) };
    const handlers = this.#o.commands as Readonly<Record<string, Handler | undefined>>;
    const handler = Object.hasOwn(handlers, name) ? handlers[name] : undefined;
    if (handler === undefined)
      return failure('unimplemented', `${name} is not served here`, 'not-executed');
    try {
      const { caller, from, args } = call;
      const result = await handler({ caller, from, deadlineMs, signal }, args);
      if (!result.ok) return result;
      const check = call.command.checkOutput(result.data);
      if (check.ok) return result;
      this.#fault('result-invalid', name, check.why);
      return failure('contract-invalid', `result: ${check.why}`, 'executed');
    } catch (error) {
      this.#fault('handler-threw', name, error instanceof Error ? error.message : String(error));
      return failure('internal', `${name} failed`, 'unknown');
    }
  }

  #answer(
    to: Pick<Call, 'caller' | 'nonce' | 'requestId' | 'replyExpected'> & {
      readonly command?: Call['command'];
    },
    result: HandlerResult,
  ): void {
    if (!to.replyExpected) return;
    if (!this.#trusted()) {
      this.#counts.untrusted++;
      return;
    }
    const { endpoint, instanceId, epoch, link, prefix } = this.#o;
    const subject = replySubject(prefix, {
      endpoint,
      instanceId,
      epoch,
      caller: to.caller,
      nonce: to.nonce,
    });
    try {
      let body = encodeEnvelope(replyOf(to.requestId, result));
      if (body.length > link.maxPayload) {
        const large = failure('resource-exhausted', 'the answer is too large', 'executed');
        body = encodeEnvelope(replyOf(to.requestId, large));
      }
      link.publish(subject, body);
    } catch (error) {
      const detail = error instanceof Error ? error.message : String(error);
      this.#fault('reply-not-sent', to.command?.name ?? '', detail);
    }
  }

  #fault(kind: EndpointFault['kind'], command: string, detail: string): void {
    try {
      this.#o.onFault?.({ kind, command, detail: detail.slice(0, 500) });
    } catch {
      // A broken listener of the host must not take the endpoint down.
    }
  }
}

const pick = (r: Refusal): ReplyError => ({
  code: r.code,
  message: r.message,
  outcome: r.outcome,
  ...(r.details === undefined ? {} : { details: [...r.details] }),
});

function replyOf(id: string, result: HandlerResult): Reply {
  if (result.ok) return { v: 1, id, ok: true, data: result.data };
  const { code, message, outcome, details } = result;
  const error = { code, message, outcome, ...(details ? { details: [...details] } : {}) };
  return { v: 1, id, ok: false, error };
}

/** Serves; `refused` names the rail that the broker does not allow. */
export async function serve(
  options: ServeOptions,
): Promise<Outcome<EndpointServer, 'permission-denied'>> {
  const server = new EndpointServer(options);
  const started = await server.start();
  return started.kind === 'done' ? done(server) : started;
}
