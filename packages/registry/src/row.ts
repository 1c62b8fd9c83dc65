import { isChannel, type LifecycleKey, parseJson, parseLifecycle } from '@plane3/protocol';
import type {
  CursorSource,
  Interval,
  MembershipRow,
  MembershipState,
  SeqRange,
} from './membership.ts';

/** Version of the row's JSON. */
const ROW_VERSION = 1;
/** More than this many earlier intervals are no row of ours. */
export const PAST_INTERVALS_MAX = 16;

/** Bucket key `<channel>/<owner>.<actor>.<uid>` (wire contract section 4). */
export const membershipKey = (channel: string, member: LifecycleKey): string =>
  `${channel}/${member}`;

export function parseMembershipKey(
  key: string,
): { readonly channel: string; readonly member: LifecycleKey } | undefined {
  const at = key.indexOf('/');
  const channel = key.slice(0, at);
  const member = key.slice(at + 1);
  if (at < 0 || !isChannel(channel) || parseLifecycle(member) === undefined) return undefined;
  return { channel, member };
}

const encoder = new TextEncoder();

/** The same row gives the same bytes, so that a row read back can be known as one's own write. */
export const encodeRow = (row: MembershipRow): Uint8Array => encoder.encode(rowText(row));

export const sameRow = (a: MembershipRow, b: MembershipRow): boolean => rowText(a) === rowText(b);

function rowText(row: MembershipRow): string {
  const at = row.member.lastIndexOf('.');
  return JSON.stringify({
    v: ROW_VERSION,
    channel: row.channel,
    principal: row.member.slice(0, at),
    uid: row.member.slice(at + 1),
    state: row.state,
    ...intervalJson(row),
    writer: row.writer,
    past: row.past.map(intervalJson),
  });
}

/** Keys in one fixed order; absent ones stay absent. */
const intervalJson = (i: Interval): Interval => ({
  generation: i.generation,
  incarnation: i.incarnation,
  joinCursor: i.joinCursor,
  cursorSource: i.cursorSource,
  ...(i.leaveCursor === undefined ? {} : { leaveCursor: i.leaveCursor }),
  ...(i.lost === undefined ? {} : { lost: { from: i.lost.from, to: i.lost.to } }),
});

/** `undefined` for whatever is not a whole row of exactly this key; never throws. */
export function decodeRow(key: string, bytes: Uint8Array): MembershipRow | undefined {
  const at = parseMembershipKey(key);
  const json = parseJson(bytes);
  if (at === undefined || !json.ok || !isRecord(json.value)) return undefined;
  const v = json.value;
  if (v['v'] !== ROW_VERSION || v['channel'] !== at.channel) return undefined;
  if (`${v['principal']}.${v['uid']}` !== at.member) return undefined;
  const state = v['state'];
  const writer = v['writer'];
  const interval = intervalOf(v);
  const past = v['past'];
  if (!isState(state) || typeof writer !== 'string' || interval === undefined) return undefined;
  if (!Array.isArray(past) || past.length > PAST_INTERVALS_MAX) return undefined;
  const intervals: Interval[] = [];
  for (const p of past) {
    const one = isRecord(p) ? intervalOf(p) : undefined;
    if (one === undefined) return undefined;
    intervals.push(one);
  }
  const left = state === 'leaving' || state === 'closed';
  if (left !== (interval.leaveCursor !== undefined)) return undefined;
  return { ...at, state, ...interval, writer, past: intervals };
}

function intervalOf(v: Record<string, unknown>): Interval | undefined {
  const { generation, incarnation, joinCursor, cursorSource, leaveCursor, lost } = v;
  if (!isCount(generation) || generation === 0 || typeof incarnation !== 'string') return undefined;
  if (!isCount(joinCursor) || !isSource(cursorSource)) return undefined;
  if (leaveCursor !== undefined && !isCount(leaveCursor)) return undefined;
  if (lost !== undefined && !isRange(lost)) return undefined;
  return {
    generation,
    incarnation,
    joinCursor,
    cursorSource,
    ...(leaveCursor === undefined ? {} : { leaveCursor }),
    ...(lost === undefined ? {} : { lost }),
  };
}

const isRecord = (x: unknown): x is Record<string, unknown> =>
  typeof x === 'object' && x !== null && !Array.isArray(x);
/** Sequences and generations: whole, not negative, exact in a double. */
export const isCount = (x: unknown): x is number =>
  typeof x === 'number' && Number.isSafeInteger(x) && x >= 0;
const isSource = (x: unknown): x is CursorSource => x === 'client' || x === 'frontier';
const isState = (x: unknown): x is MembershipState =>
  x === 'joining' || x === 'active' || x === 'leaving' || x === 'closed';
const isRange = (x: unknown): x is SeqRange =>
  isRecord(x) && isCount(x['from']) && isCount(x['to']);
