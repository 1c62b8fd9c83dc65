import { isChannel } from './channels.ts';
import {
  isActor,
  isCommand,
  isId,
  isNonce,
  isOwner,
  isUid,
  type Lifecycle,
  lifecycleDash,
  lifecycleKey,
  type Principal,
  principalId,
} from './ids.ts';

/**
 * Subjects of a space (wire contract section 2, SPEC 3 and 13.2). `prefix` is `cotal.<space token>`.
 * Parsing only splits: a subject of another shape has no sender and is never handled.
 */
export const SUBJECT_BYTES_MAX = 1024;

export const chatSubject = (prefix: string, from: Principal, channel: string): string =>
  `${prefix}.chat.${principalId(from)}.${channel}`;
/** What a reader of a channel subscribes to: the posts of every sender. */
export const chatFilter = (prefix: string, channel: string): string =>
  `${prefix}.chat.*.*.${channel}`;
export const directSubject = (prefix: string, to: Principal, from: Principal): string =>
  `${prefix}.inst.${principalId(to)}.${principalId(from)}`;
export const anycastSubject = (prefix: string, role: string, from: Principal): string =>
  `${prefix}.svc.${role}.${principalId(from)}`;
export const inboxSubject = (prefix: string, member: Lifecycle): string =>
  `${prefix}.dinbox.${lifecycleKey(member)}`;
export const inboxFenceSubject = (prefix: string, shard: number): string =>
  `${prefix}.dinbox._fence.${shard}`;
export const inboxCursorSubject = (prefix: string, shard: number): string =>
  `${prefix}.dinbox._cursor.${shard}`;
export const handOverSubject = (prefix: string, member: Lifecycle): string =>
  `${prefix}.dlv.${lifecycleKey(member)}`;
export const handOverFenceSubject = (prefix: string, shard: number): string =>
  `${prefix}.dlv._fence.${shard}`;
export const deadLetterSubject = (prefix: string, member: Lifecycle): string =>
  `${prefix}.dead.${lifecycleKey(member)}`;
export const deadPostSubject = (prefix: string): string => `${prefix}.dead._post`;
export const contractSubject = (prefix: string, digestHex: string): string =>
  `${prefix}.epc.${digestHex}`;

/** The member's durables; the names are fixed by the wire contract section 4. */
export const handOverDurable = (member: Lifecycle): string => `dlv_${lifecycleDash(member)}`;
export const directDurable = (member: Lifecycle): string => `dm_${lifecycleDash(member)}`;
export const roleDurable = (role: string): string => `svc_${role}`;
export const historyDurable = (member: Lifecycle): string => `chathist_${lifecycleDash(member)}`;

const tail = (prefix: string, kind: string, subject: string): string[] | undefined => {
  const head = `${prefix}.${kind}.`;
  return subject.startsWith(head) ? subject.slice(head.length).split('.') : undefined;
};

const principalOf = (owner?: string, actor?: string): Principal | undefined =>
  owner !== undefined && actor !== undefined && isOwner(owner) && isActor(actor)
    ? { owner, actor }
    : undefined;

const lifecycleOf = (owner?: string, actor?: string, uid?: string): Lifecycle | undefined => {
  const p = principalOf(owner, actor);
  return p !== undefined && uid !== undefined && isUid(uid) ? { ...p, uid } : undefined;
};

export interface ChatSubject {
  readonly from: Principal;
  readonly channel: string;
}

/** Sender = tokens 3 and 4, channel = tokens 5 and on. */
export function parseChat(prefix: string, subject: string): ChatSubject | undefined {
  const t = tail(prefix, 'chat', subject);
  if (t === undefined || t.length < 3) return undefined;
  const from = principalOf(t[0], t[1]);
  const channel = t.slice(2).join('.');
  return from !== undefined && isChannel(channel) ? { from, channel } : undefined;
}

export function parseDirect(
  prefix: string,
  subject: string,
): { readonly to: Principal; readonly from: Principal } | undefined {
  const t = tail(prefix, 'inst', subject);
  if (t === undefined || t.length !== 4) return undefined;
  const to = principalOf(t[0], t[1]);
  const from = principalOf(t[2], t[3]);
  return to !== undefined && from !== undefined ? { to, from } : undefined;
}

export function parseAnycast(
  prefix: string,
  subject: string,
): { readonly role: string; readonly from: Principal } | undefined {
  const t = tail(prefix, 'svc', subject);
  if (t === undefined || t.length !== 3) return undefined;
  const [role, owner, actor] = t;
  const from = principalOf(owner, actor);
  return role !== undefined && isId(role) && from !== undefined ? { role, from } : undefined;
}

/** The member whose private store (`dinbox`) or hand-over subject (`dlv`) this is. */
export function parseMemberSubject(
  prefix: string,
  kind: 'dinbox' | 'dlv' | 'dead',
  subject: string,
): Lifecycle | undefined {
  const t = tail(prefix, kind, subject);
  return t === undefined || t.length !== 3 ? undefined : lifecycleOf(t[0], t[1], t[2]);
}

export interface RequestSubject {
  readonly endpoint: string;
  /** The class rail has none. */
  readonly instanceId?: string;
  readonly command: string;
  readonly caller: Lifecycle;
  readonly nonce: string;
}

export const requestSubject = (prefix: string, r: RequestSubject): string =>
  r.instanceId === undefined
    ? `${prefix}.ep.one.${r.endpoint}.${r.command}.${lifecycleKey(r.caller)}.${r.nonce}`
    : `${prefix}.ep.inst.${r.endpoint}.${r.instanceId}.${r.command}.${lifecycleKey(r.caller)}.${r.nonce}`;

/** Untargeted commands only: a subject with mode and target tokens is `undefined` here. */
export function parseRequest(prefix: string, subject: string): RequestSubject | undefined {
  if (subject.length > SUBJECT_BYTES_MAX) return undefined;
  const one = tail(prefix, 'ep.one', subject);
  const inst = tail(prefix, 'ep.inst', subject);
  const t = one?.length === 6 ? one : inst?.length === 7 ? inst : undefined;
  if (t === undefined) return undefined;
  const endpoint = t[0] as string;
  const instanceId = inst === undefined ? undefined : (t[1] as string);
  const [command, owner, actor, uid, nonce] = t.slice(inst === undefined ? 1 : 2);
  const caller = lifecycleOf(owner, actor, uid);
  if (caller === undefined || !isId(endpoint) || command === undefined || !isCommand(command))
    return undefined;
  if (nonce === undefined || !isNonce(nonce)) return undefined;
  if (instanceId !== undefined && !isUid(instanceId)) return undefined;
  return { endpoint, command, caller, nonce, ...(instanceId === undefined ? {} : { instanceId }) };
}

export interface ReplySubject {
  readonly endpoint: string;
  readonly instanceId: string;
  readonly epoch: string;
  readonly caller: Lifecycle;
  readonly nonce: string;
}

/** 11 tokens; derived from the request's subject only, never from a transport reply field. */
export const replySubject = (prefix: string, r: ReplySubject): string =>
  `${prefix}.ep.reply.${r.endpoint}.${r.instanceId}.${r.epoch}.${lifecycleKey(r.caller)}.${r.nonce}`;

export function parseReply(prefix: string, subject: string): ReplySubject | undefined {
  const t = tail(prefix, 'ep.reply', subject);
  if (t === undefined || t.length !== 7) return undefined;
  const [endpoint, instanceId, epoch, owner, actor, uid, nonce] = t as [string, ...string[]];
  const caller = lifecycleOf(owner, actor, uid);
  if (caller === undefined || instanceId === undefined || !isUid(instanceId)) return undefined;
  if (epoch === undefined || !isId(epoch) || nonce === undefined || !isNonce(nonce))
    return undefined;
  return isId(endpoint) ? { endpoint, instanceId, epoch, caller, nonce } : undefined;
}

export type TimerVerb = 'schedule' | 'armed' | 'fire';

export interface TimerSubject {
  readonly endpoint: string;
  readonly instanceId: string;
  readonly epoch: string;
  readonly timerId: string;
  readonly verb: TimerVerb;
}

/** 8 tokens: `P.ept.<endpoint>.<iid>.<epoch>.<timerId>.<verb>`. */
export const timerSubject = (prefix: string, t: TimerSubject): string =>
  `${prefix}.ept.${t.endpoint}.${t.instanceId}.${t.epoch}.${t.timerId}.${t.verb}`;

export function parseTimer(prefix: string, subject: string): TimerSubject | undefined {
  const t = tail(prefix, 'ept', subject);
  if (t === undefined || t.length !== 5) return undefined;
  const [endpoint, instanceId, epoch, timerId, verb] = t as [
    string,
    string,
    string,
    string,
    string,
  ];
  if (!isId(endpoint) || !isUid(instanceId) || !isId(epoch) || !isId(timerId)) return undefined;
  if (verb !== 'schedule' && verb !== 'armed' && verb !== 'fire') return undefined;
  return { endpoint, instanceId, epoch, timerId, verb };
}

/** `$JS.ACK.<stream>.<consumer>.<deliveries>.<stream seq>.<consumer seq>.<stored ns>.<pending>`. */
export interface AckSubject {
  readonly stream: string;
  readonly consumer: string;
  readonly deliveries: number;
  readonly seq: number;
  /** Stored timestamp of the message, nanoseconds since the epoch; beyond a double, so a text. */
  readonly storedNs: string;
}

const COUNT = /^[1-9]\d{0,15}$/;
const JETSTREAM_NAME = /^[A-Za-z0-9_-]+$/;

/**
 * Both the 9-token form and the 11/12-token one with domain and account hash. The subject is the
 * writing of whoever confirms: names and numbers that the broker would not have made are refused.
 */
export function parseAck(subject: string): AckSubject | undefined {
  const t = subject.split('.');
  if (t[0] !== '$JS' || t[1] !== 'ACK') return undefined;
  const at = t.length === 9 ? 2 : t.length === 11 || t.length === 12 ? 4 : -1;
  if (at < 0) return undefined;
  const [stream = '', consumer = '', deliveriesText = '', seqText = '', , storedNs = ''] =
    t.slice(at);
  if (!JETSTREAM_NAME.test(stream) || !JETSTREAM_NAME.test(consumer)) return undefined;
  if (!COUNT.test(deliveriesText) || !COUNT.test(seqText)) return undefined;
  const deliveries = Number(deliveriesText);
  const seq = Number(seqText);
  if (!Number.isSafeInteger(deliveries) || !Number.isSafeInteger(seq)) return undefined;
  return /^\d{1,20}$/.test(storedNs) ? { stream, consumer, deliveries, seq, storedNs } : undefined;
}
