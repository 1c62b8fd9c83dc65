import { randomBytes } from 'node:crypto';
import type { Link, LinkSubscription, Msg } from '@plane3/link';
import {
  done,
  type Lifecycle,
  lifecycleKey,
  type Outcome,
  parseJson,
  parseReply,
  principalId,
  type ReplySubject,
  requestSubject,
} from '@plane3/protocol';
import {
  COMMAND_CLASS,
  type Command,
  type CommandTable,
  DELIVERY_COMMANDS,
  DELIVERY_ENDPOINT,
  DESCRIBE_COMMAND,
} from '../contract.ts';
import {
  type Bind,
  type Detail,
  type Effect,
  type EndpointCode,
  encodeEnvelope,
  REPLY_BYTES_MAX,
  type Reply,
  replySchema,
} from '../envelope.ts';
import { hasBrokerHeader } from '../server.ts';
import type { DeliveryCalls, DeliveryCommand } from '../types.ts';
import { Inbox, type InboxEvent } from './inbox.ts';

/** Random bytes of a nonce: 24 characters, 144 bits. */
const NONCE_BYTES = 18;
/** How long a new instance or epoch has to prove itself by `health`. */
const PIN_CHECK_MS = 1_000;
export const CALL_DEADLINE_MS = 5_000;

export type CallResult<T = unknown> =
  | { readonly ok: true; readonly data: T; readonly instanceId: string; readonly epoch: string }
  | CallFailure;

export interface CallFailure {
  readonly ok: false;
  readonly code: EndpointCode;
  readonly message: string;
  readonly details?: readonly Detail[] | undefined;
  /** Whether it had its effect; after a deadline or a lost connection nobody can say. */
  readonly outcome: Effect;
}

export interface CallerOptions {
  readonly link: Link;
  /** `cotal.<space token>`. */
  readonly prefix: string;
  readonly caller: Lifecycle;
  /** What the caller calls itself; default the actor. */
  readonly name?: string;
  readonly role?: string;
  readonly endpoint?: string;
  readonly table?: CommandTable;
}

export interface CallOptions {
  /** A duration; default {@link CALL_DEADLINE_MS}. */
  readonly deadlineMs?: number;
  /** Only this instance and epoch may execute it. */
  readonly bind?: Bind;
  /** Sends on the instance rail instead of the class rail. */
  readonly instanceId?: string;
}

/** Why messages on the reply rail were ignored. */
export interface CallerStats {
  readonly ignored: Readonly<
    Record<'malformed' | 'broker-header' | 'unasked' | 'not-pinned', number>
  >;
}

interface Open {
  readonly command: Command;
  readonly requestId: string;
  readonly end: (result: CallResult) => void;
}

const fail = (
  code: EndpointCode,
  message: string,
  outcome: Effect,
  details?: readonly Detail[],
): CallFailure => ({ ok: false, code, message, outcome, ...(details ? { details } : {}) });

/** Calls an endpoint as one lifecycle. One per link: it holds the reply rail's subscription. */
export class Caller {
  readonly #o: CallerOptions;
  readonly #endpoint: string;
  readonly #table: CommandTable;
  readonly #inbox: Inbox;
  readonly #open = new Map<string, Open>();
  readonly #ignored = { malformed: 0, 'broker-header': 0, unasked: 0, 'not-pinned': 0 };
  #rail: LinkSubscription | undefined;
  #pinned: Bind | undefined;
  #pinCheck: Promise<Bind | undefined> | undefined;
  #offlineSinceMs: number | undefined;

  private constructor(options: CallerOptions, inbox: Inbox) {
    this.#o = options;
    this.#endpoint = options.endpoint ?? DELIVERY_ENDPOINT;
    this.#table = options.table ?? DELIVERY_COMMANDS;
    this.#inbox = inbox;
  }

  /** Ready once the broker accepted the subscription of the own reply rail. */
  static async open(options: CallerOptions): Promise<Outcome<Caller, 'permission-denied'>> {
    const inbox = await Inbox.open(options.link);
    if (inbox.kind !== 'done') return inbox;
    const caller = new Caller(options, inbox.value);
    const rail = `${options.prefix}.ep.reply.*.*.*.${lifecycleKey(options.caller)}.*`;
    const opened = await options.link.subscribe(rail, (m) => caller.#arrived(m));
    if (opened.kind !== 'done') {
      inbox.value.close();
      return opened;
    }
    caller.#rail = opened.value;
    return done(caller);
  }

  /** The instance and epoch that answered the last `describe` or `health`. */
  get pinned(): Bind | undefined {
    return this.#pinned;
  }

  stats(): CallerStats {
    return { ignored: { ...this.#ignored } };
  }

  async call<C extends DeliveryCommand>(
    command: C,
    args: DeliveryCalls[C]['args'],
    options: CallOptions = {},
  ): Promise<CallResult<DeliveryCalls[C]['data']>> {
    return (await this.request(command, args, options)) as CallResult<DeliveryCalls[C]['data']>;
  }

  /** The whole contract as it is served. */
  describe(options: CallOptions = {}): Promise<CallResult> {
    return this.request(DESCRIBE_COMMAND, undefined, options);
  }

  /** A call by name. Never rejects; a refusal by the broker comes at once, not at the deadline. */
  request(name: string, args: unknown, options: CallOptions = {}): Promise<CallResult> {
    const command = this.#table.get(name);
    if (command === undefined)
      return Promise.resolve(fail('unimplemented', `no command ${name}`, 'not-executed'));
    const check = command.checkInput(args ?? null);
    if (!check.ok)
      return Promise.resolve(fail('contract-invalid', `args: ${check.why}`, 'not-executed'));
    const deadlineMs = options.deadlineMs ?? CALL_DEADLINE_MS;
    return new Promise((resolve) => this.#send(command, args, { ...options, deadlineMs }, resolve));
  }

  close(): void {
    this.#rail?.unsubscribe();
    this.#inbox.close();
    for (const open of [...this.#open.values()])
      open.end(fail('cancelled', 'the caller was closed', 'unknown'));
  }

  #send(
    command: Command,
    args: unknown,
    options: CallOptions & { readonly deadlineMs: number },
    resolve: (result: CallResult) => void,
  ): void {
    const nonce = randomBytes(NONCE_BYTES).toString('base64url');
    const { caller, prefix } = this.#o;
    const subject = requestSubject(prefix, {
      endpoint: this.#endpoint,
      command: command.name,
      caller,
      nonce,
      ...(options.instanceId === undefined ? {} : { instanceId: options.instanceId }),
    });
    let stopListening: () => void = () => undefined;
    const end = (result: CallResult): void => {
      if (!this.#open.delete(nonce)) return;
      clearTimeout(timer);
      stopListening();
      resolve(result);
    };
    const timer = setTimeout(() => {
      end(fail('deadline-exceeded', `no answer within ${options.deadlineMs} ms`, 'unknown'));
    }, options.deadlineMs);
    this.#open.set(nonce, { command, requestId: nonce, end });
    const body = this.#body(command, args, options, nonce);
    // The reply subject only makes the broker say at once that nobody serves; servers ignore it.
    stopListening = this.#inbox.publish(subject, body, (e) => this.#noticed(e, end));
    if (!this.#open.has(nonce)) stopListening();
  }

  #body(
    command: Command,
    args: unknown,
    options: CallOptions & { readonly deadlineMs: number },
    id: string,
  ): Uint8Array {
    const { caller, name, role } = this.#o;
    return encodeEnvelope({
      v: 1,
      id,
      op: {
        endpoint: this.#endpoint,
        command: command.name,
        inputDigest: command.inputDigest,
        outputDigest: command.outputDigest,
      },
      class: COMMAND_CLASS,
      replyExpected: true,
      ...(options.bind === undefined ? {} : { bind: options.bind }),
      ...(args === undefined ? {} : { args }),
      from: {
        id: principalId(caller),
        name: name ?? caller.actor,
        ...(role === undefined ? {} : { role }),
      },
      deadlineMs: Math.max(1, Math.ceil(options.deadlineMs)),
    });
  }

  #noticed(event: InboxEvent, end: (result: CallResult) => void): void {
    switch (event.kind) {
      case 'message':
        this.#ignored.unasked++; // Answers come on the rail; this subject is for the broker alone.
        return;
      case 'no-responders':
        end(fail('unavailable', 'nobody serves the endpoint', 'not-executed'));
        return;
      case 'denied':
        end(
          fail('permission-denied', `permission denied: ${event.subject}`, 'not-executed', [
            { kind: 'subject', subject: event.subject },
          ]),
        );
        return;
      case 'offline':
        this.#offlineSinceMs ??= Date.now();
        end(fail('unavailable', this.#offlineText(), 'not-executed'));
        return;
      case 'lost':
        end(fail('unavailable', 'the connection was lost before an answer', 'unknown'));
    }
  }

  #offlineText(): string {
    const since = new Date(this.#offlineSinceMs ?? Date.now()).toISOString();
    return `the broker is away, noticed at ${since}`;
  }

  #arrived(m: Msg): void {
    this.#offlineSinceMs = undefined;
    if (hasBrokerHeader(m.headers?.keys() ?? [])) {
      this.#ignored['broker-header']++;
      return;
    }
    const at = parseReply(this.#o.prefix, m.subject);
    const mine = at !== undefined && lifecycleKey(at.caller) === lifecycleKey(this.#o.caller);
    const open = mine && at.endpoint === this.#endpoint ? this.#open.get(at.nonce) : undefined;
    if (at === undefined || open === undefined) {
      this.#ignored.unasked++;
      return;
    }
    const reply = readReply(m.data);
    if (reply === undefined || (reply.id !== open.requestId && reply.id !== at.nonce)) {
      this.#ignored.malformed++;
      return;
    }
    void this.#accept(open, at, reply);
  }

  async #accept(open: Open, at: ReplySubject, reply: Reply): Promise<void> {
    const { instanceId, epoch } = at;
    const pins = open.command.name === 'health' || open.command.name === DESCRIBE_COMMAND;
    if (!pins && !(await this.#isPinned(at))) {
      this.#ignored['not-pinned']++;
      return;
    }
    if (!reply.ok) {
      const e = reply.error;
      if (e !== undefined) open.end(fail(e.code, e.message, e.outcome, e.details));
      return;
    }
    const check = open.command.checkOutput(reply.data ?? null);
    if (!check.ok) {
      open.end(fail('contract-invalid', `result: ${check.why}`, 'executed'));
      return;
    }
    if (pins) this.#pinned = { instanceId, epoch };
    open.end({ ok: true, data: reply.data, instanceId, epoch });
  }

  /** A reply of another instance or epoch counts only once `health` comes from it too. */
  async #isPinned(at: ReplySubject): Promise<boolean> {
    const same = (b: Bind | undefined) =>
      b !== undefined && b.instanceId === at.instanceId && b.epoch === at.epoch;
    if (this.#pinned === undefined || same(this.#pinned)) return true;
    this.#pinCheck ??= this.#askPin();
    return same(await this.#pinCheck);
  }

  async #askPin(): Promise<Bind | undefined> {
    const health = await this.request('health', {}, { deadlineMs: PIN_CHECK_MS });
    this.#pinCheck = undefined;
    return health.ok ? { instanceId: health.instanceId, epoch: health.epoch } : undefined;
  }
}

function readReply(body: Uint8Array): Reply | undefined {
  if (body.length > REPLY_BYTES_MAX) return undefined;
  const json = parseJson(body);
  if (!json.ok) return undefined;
  const parsed = replySchema.safeParse(json.value);
  return parsed.success ? parsed.data : undefined;
}

/** One call on a caller of its own; programs that call more than once keep a {@link Caller}. */
export async function callEndpoint<C extends DeliveryCommand>(
  o: CallerOptions & CallOptions & { readonly command: C; readonly args: DeliveryCalls[C]['args'] },
): Promise<CallResult<DeliveryCalls[C]['data']>> {
  const { link, prefix, caller, name, role, endpoint, table } = o;
  const opened = await Caller.open({
    link,
    prefix,
    caller,
    ...(name === undefined ? {} : { name }),
    ...(role === undefined ? {} : { role }),
    ...(endpoint === undefined ? {} : { endpoint }),
    ...(table === undefined ? {} : { table }),
  });
  if (opened.kind === 'refused')
    return fail('permission-denied', `permission denied: ${opened.detail}`, 'not-executed');
  if (opened.kind === 'unknown') return fail('unavailable', opened.cause, 'not-executed');
  try {
    return await opened.value.call(o.command, o.args, o);
  } finally {
    opened.value.close();
  }
}
