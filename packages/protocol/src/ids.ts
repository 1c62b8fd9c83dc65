/**
 * Identity of a member (wire contract section 1, SPEC 2). Parsing never guesses: a text of
 * another shape is `undefined`, never a repaired id.
 */

/** An actor of an owner. `local` or `u_` + 26 characters; both parts at most 64 characters. */
export interface Principal {
  readonly owner: string;
  readonly actor: string;
}

/**
 * One life of a principal. A name may be reused, a lifecycle may not: durable state keys on all
 * three. `uid` is 26 to 32 characters of `a-z0-9` with at least 128 random bits.
 */
export interface Lifecycle extends Principal {
  readonly uid: string;
}

/** `<owner>.<actor>.<uid>`: the key of a lifecycle in buckets, subjects and maps. */
export type LifecycleKey = string;

const OWNER = /^(?:local|u_[a-z2-7]{26})$/;
const ACTOR = /^[A-Za-z0-9_]{1,64}$/;
const UID = /^[a-z0-9]{26,32}$/;
const NONCE = /^[A-Za-z0-9_-]{22,64}$/;
const COMMAND = /^[a-z0-9-]{1,32}$/;
const ID = /^[A-Za-z0-9_-]{1,64}$/;

export const isOwner = (text: string): boolean => OWNER.test(text);
export const isActor = (text: string): boolean => ACTOR.test(text);
/** A lifecycle uid or an endpoint instance id. */
export const isUid = (text: string): boolean => UID.test(text);
export const isNonce = (text: string): boolean => NONCE.test(text);
export const isCommand = (text: string): boolean => COMMAND.test(text);
/** Request ids, timer ids, role names: whatever stands as one token of its own. */
export const isId = (text: string): boolean => ID.test(text);

/** Dot form `<owner>.<actor>`: `from.id`, `card.id`, bucket keys, subjects. */
export const principalId = (p: Principal): string => `${p.owner}.${p.actor}`;

export const lifecycleKey = (l: Lifecycle): LifecycleKey => `${l.owner}.${l.actor}.${l.uid}`;

/** Dash form `<owner>-<actor>-<uid>`: the tail of a durable's name. */
export const lifecycleDash = (l: Lifecycle): string => `${l.owner}-${l.actor}-${l.uid}`;

export function parsePrincipal(text: string): Principal | undefined {
  const [owner, actor, ...rest] = text.split('.');
  if (owner === undefined || actor === undefined || rest.length > 0) return undefined;
  return isOwner(owner) && isActor(actor) ? { owner, actor } : undefined;
}

export function parseLifecycle(text: string): Lifecycle | undefined {
  const [owner, actor, uid, ...rest] = text.split('.');
  if (owner === undefined || actor === undefined || uid === undefined || rest.length > 0)
    return undefined;
  return isOwner(owner) && isActor(actor) && isUid(uid) ? { owner, actor, uid } : undefined;
}

export const samePrincipal = (a: Principal, b: Principal): boolean =>
  a.owner === b.owner && a.actor === b.actor;

/**
 * The routing token of a space: every character outside `[A-Za-z0-9_-]` becomes `_`. Never
 * decoded back; two spaces may share a token, so files use {@link spaceFileKey}.
 */
export const spaceToken = (space: string): string => space.replace(/[^A-Za-z0-9_-]/g, '_');

/** Lowercase hex of the name's UTF-8: tells names apart that differ only in letter case. */
export const spaceFileKey = (space: string): string =>
  Array.from(new TextEncoder().encode(space), (b) => b.toString(16).padStart(2, '0')).join('');

const SPACE_NAME_CHARACTERS_MAX = 64;
/** Twice as many hex digits, a prefix and a suffix must fit in a file name of 255 bytes. */
const SPACE_NAME_BYTES_MAX = 96;

/** 1 to 64 printable characters (at most 96 bytes of UTF-8) without blanks at the ends. */
export const isSpaceName = (text: string): boolean =>
  text.length <= SPACE_NAME_CHARACTERS_MAX &&
  new TextEncoder().encode(text).length <= SPACE_NAME_BYTES_MAX &&
  /^[^\s\p{Cc}\p{Cf}\p{Cs}]+(?: +[^\s\p{Cc}\p{Cf}\p{Cs}]+)*$/u.test(text);
