import {
  BROKER_HEADERS,
  jsonDepthWithin,
  type Lifecycle,
  lifecycleKey,
  parseJson,
  parseRequest,
  principalId,
  type RequestSubject,
} from '@plane3/protocol';
import { COMMAND_CLASS, type Command, type CommandTable, DESCRIBE_COMMAND } from './contract.ts';
import {
  BIND_REFUSED_KIND,
  DEADLINE_INSTANT_FROM_MS,
  type Detail,
  type Effect,
  ENVELOPE_VERSION,
  type EndpointCode,
  REQUEST_BYTES_MAX,
  REQUEST_DEPTH_MAX,
  type Request,
  requestSchema,
  type Sender,
} from './envelope.ts';
import type { NonceCache } from './nonces.ts';

/** The judge of requests: pure but for the nonce cache that it is given. Never throws. */
export interface JudgeSettings {
  /** `cotal.<space token>`. */
  readonly prefix: string;
  readonly endpoint: string;
  readonly instanceId: string;
  readonly epoch: string;
  readonly commands: CommandTable;
  /** No handler is given longer than this, whatever its caller asks. */
  readonly deadlineMaxMs: number;
}

/** A request as it came from the broker; all of it is hostile until judged. */
export interface Arrival {
  readonly subject: string;
  readonly headerNames: readonly string[];
  readonly body: Uint8Array;
  /** Wall clock, milliseconds since the epoch. */
  readonly nowMs: number;
}

/** Where an answer goes: derived from the request's subject only, never from a reply field. */
interface Addressee {
  readonly caller: Lifecycle;
  readonly nonce: string;
  /** The request's id; its nonce while no id could be read. */
  readonly requestId: string;
  readonly replyExpected: boolean;
}

export interface Call extends Addressee {
  readonly kind: 'call';
  readonly command: Command;
  readonly args: unknown;
  readonly from: Sender;
  /** What is left, a duration. */
  readonly deadlineMs: number;
}

export interface Refusal extends Addressee {
  readonly kind: 'refusal';
  readonly code: EndpointCode;
  readonly message: string;
  readonly outcome: Effect;
  readonly details?: readonly Detail[] | undefined;
}

export type Verdict =
  | Call
  | Refusal
  /** No caller can be named, so nobody is answered. */
  | { readonly kind: 'ignore'; readonly reason: 'malformed-subject' | 'other-endpoint' };

type Flaw = Pick<Refusal, 'code' | 'message' | 'details'> & { readonly outcome?: Effect };

const VOID_KEYS: readonly string[] = BROKER_HEADERS.map((h) => h.toLowerCase());

export const hasBrokerHeader = (headerNames: readonly string[]): boolean =>
  headerNames.some((h) => VOID_KEYS.includes(h.toLowerCase()));

const flaw = (code: EndpointCode, message: string, details?: readonly Detail[]): Flaw => ({
  code,
  message,
  ...(details === undefined ? {} : { details }),
});

/** Size, depth, JSON, version and shape, in this order. */
function readRequest(
  body: Uint8Array,
): { readonly request: Request } | { readonly flaw: Flaw; readonly raw: unknown } {
  const bad = (message: string, raw: unknown = undefined) => ({
    flaw: flaw('bad-request', message),
    raw,
  });
  if (body.length > REQUEST_BYTES_MAX) return bad(`more than ${REQUEST_BYTES_MAX} bytes`);
  const text = new TextDecoder().decode(body);
  if (!jsonDepthWithin(text, REQUEST_DEPTH_MAX)) return bad('nested too deep');
  const json = parseJson(body);
  if (!json.ok) return bad(json.why);
  const raw = json.value;
  if (typeof raw !== 'object' || raw === null || Array.isArray(raw)) return bad('not an object');
  const version = (raw as { v?: unknown }).v;
  if (typeof version === 'number' && version !== ENVELOPE_VERSION)
    return { flaw: flaw('unsupported-version', `only v ${ENVELOPE_VERSION} is served`), raw };
  const parsed = requestSchema.safeParse(raw);
  if (parsed.success) return { request: parsed.data };
  const issue = parsed.error.issues[0];
  return bad(`${issue?.path.join('.') || 'request'}: ${issue?.message ?? 'invalid'}`, raw);
}

/** What can be told of a request of another shape, so that its caller gets an answer. */
function addresseeOf(at: RequestSubject, raw: unknown): Addressee {
  const r = (typeof raw === 'object' && raw !== null ? raw : {}) as Record<string, unknown>;
  const id = r['id'];
  return {
    caller: at.caller,
    nonce: at.nonce,
    requestId: typeof id === 'string' && id.length > 0 && id.length <= 64 ? id : at.nonce,
    replyExpected: r['replyExpected'] !== false,
  };
}

function digestFlaw(request: Request, command: Command): Flaw | undefined {
  const free = command.name === DESCRIBE_COMMAND;
  const { inputDigest, outputDigest } = request.op;
  const agrees = (given: string | undefined, own: string) =>
    given === undefined ? free : given === own;
  if (agrees(inputDigest, command.inputDigest) && agrees(outputDigest, command.outputDigest))
    return undefined;
  return flaw('contract-mismatch', `the digests are not those of ${command.name}`);
}

function bindFlaw(request: Request, settings: JudgeSettings): Flaw | undefined {
  const { bind } = request;
  if (bind === undefined) return undefined;
  const { instanceId, epoch } = settings;
  const details = [{ kind: BIND_REFUSED_KIND, instanceId, epoch }];
  if (bind.instanceId !== instanceId)
    return flaw('failed-precondition', 'bound to another instance', details);
  return bind.epoch === epoch ? undefined : flaw('expired', 'bound to another epoch', details);
}

function remainingMs(request: Request, settings: JudgeSettings, nowMs: number): number {
  const asked =
    request.deadlineMs >= DEADLINE_INSTANT_FROM_MS
      ? request.deadlineMs - nowMs
      : request.deadlineMs;
  return Math.min(asked, settings.deadlineMaxMs);
}

/** The rest of the order of section 6, once the envelope is whole. */
function findFlaw(
  request: Request,
  at: RequestSubject,
  settings: JudgeSettings,
): Flaw | { readonly command: Command } {
  const { op } = request;
  if (op.endpoint !== at.endpoint || op.command !== at.command)
    return flaw('op-mismatch', `the subject names ${at.endpoint} ${at.command}`);
  const command = settings.commands.get(op.command);
  if (command === undefined) return flaw('unimplemented', `no command ${op.command}`);
  if (request.class !== COMMAND_CLASS)
    return flaw('class-mismatch', `${op.command} is ${COMMAND_CLASS}`);
  const early = digestFlaw(request, command) ?? bindFlaw(request, settings);
  if (early !== undefined) return early;
  if (request.from.id !== principalId(at.caller))
    return flaw('sender-mismatch', `from.id is not ${principalId(at.caller)}`);
  const check = command.checkInput(request.args ?? null);
  return check.ok ? { command } : flaw('contract-invalid', `args: ${check.why}`);
}

/**
 * Judges one arrival: subject, broker headers, version, operation, class, digests, bind, sender,
 * arguments, deadline, replay. Nothing has had an effect before it answers `call`.
 */
export function judgeRequest(
  settings: JudgeSettings,
  nonces: NonceCache,
  arrival: Arrival,
): Verdict {
  const at = parseRequest(settings.prefix, arrival.subject);
  if (at === undefined) return { kind: 'ignore', reason: 'malformed-subject' };
  if (at.endpoint !== settings.endpoint) return { kind: 'ignore', reason: 'other-endpoint' };
  if (at.instanceId !== undefined && at.instanceId !== settings.instanceId)
    return { kind: 'ignore', reason: 'other-endpoint' };
  const refuse = (f: Flaw, to: Addressee): Refusal => ({
    kind: 'refusal',
    outcome: 'not-executed',
    ...f,
    ...to,
  });
  if (hasBrokerHeader(arrival.headerNames))
    return refuse(flaw('bad-request', 'bears headers of the broker'), addresseeOf(at, undefined));
  const read = readRequest(arrival.body);
  if ('flaw' in read) return refuse(read.flaw, addresseeOf(at, read.raw));
  const { request } = read;
  const to = addresseeOf(at, request);
  const found = findFlaw(request, at, settings);
  if (!('command' in found)) return refuse(found, to);
  const deadlineMs = remainingMs(request, settings, arrival.nowMs);
  if (deadlineMs <= 0) return refuse(flaw('deadline-exceeded', 'it had passed on arrival'), to);
  const key = `${lifecycleKey(at.caller)}.${at.nonce}`;
  if (nonces.has(key, arrival.nowMs))
    // The first request under this nonce may have been executed: this one was not.
    return refuse({ ...flaw('already-exists', 'the nonce was used'), outcome: 'unknown' }, to);
  nonces.add(key, arrival.nowMs);
  return {
    kind: 'call',
    ...to,
    command: found.command,
    args: request.args ?? null,
    from: request.from,
    deadlineMs,
  };
}
