import {
  isChannel,
  isChannelPattern,
  type Lifecycle,
  type LifecycleKey,
  lifecycleKey,
  parseLifecycle,
} from '@plane3/protocol';
import type { Asked, Event, Failure, RequestId, Retirement, State, Task } from './model.ts';
import { isCount, membershipKey } from './row.ts';
import {
  advance,
  answer,
  failure,
  isOpenEnded,
  newTask,
  type Out,
  takeNext,
  yieldToQueue,
} from './work.ts';

type Request = Extract<Event, { kind: 'join-asked' | 'leave-asked' | 'retire-asked' }>;

/** A request is refused here, or waits for its turn at its (channel, lifecycle). */
export function intake(s: State, e: Request, out: Out): void {
  const wrong = refusalOf(s, e);
  if (wrong !== undefined) {
    out.push({ kind: 'answer', request: e.request, answer: wrong });
    return;
  }
  const member = lifecycleKey(e.lifecycle);
  out.push({ kind: 'bound', request: e.request, ms: s.settings.answerWithinMs });
  if (e.kind === 'retire-asked') {
    retire(s, e.request, member, out);
    return;
  }
  s.open.set(e.request, { key: membershipKey(e.channel, member) });
  const asked: Asked =
    e.kind === 'join-asked'
      ? { goal: 'join', request: e.request, joinCursor: e.joinCursor }
      : { goal: 'leave', request: e.request, generation: e.generation };
  if (asked.goal === 'join' && s.retirements.has(member)) {
    const why = failure('permission-denied', 'not-executed', 'the lifecycle is being retired');
    answer(s, out, e.request, why);
    return;
  }
  enqueue(s, e.channel, member, asked, out);
}

function refusalOf(s: State, e: Request): Failure | undefined {
  const bad = (detail: string): Failure => failure('bad-request', 'not-executed', detail);
  if (!isLifecycle(e.lifecycle)) return bad('not a lifecycle');
  if (e.kind !== 'retire-asked' && !isChannel(e.channel))
    return bad(
      isChannelPattern(e.channel)
        ? 'a pattern is no channel: join each channel by its name'
        : 'not a channel',
    );
  if (e.kind === 'join-asked' && e.joinCursor !== undefined && !isCount(e.joinCursor))
    return bad('joinCursor is not a sequence');
  if (e.kind === 'leave-asked' && e.generation !== undefined && !isCount(e.generation))
    return bad('generation is not a number');
  if (s.phase !== 'loaded')
    return failure('unavailable', 'not-executed', `the memberships are ${s.phase}`);
  if (s.open.size >= s.settings.requestsMax)
    return failure('resource-exhausted', 'not-executed', `requestsMax ${s.settings.requestsMax}`);
  return undefined;
}

const isLifecycle = (l: Lifecycle): boolean => parseLifecycle(lifecycleKey(l)) !== undefined;

function enqueue(s: State, channel: string, member: LifecycleKey, asked: Asked, out: Out): void {
  const key = membershipKey(channel, member);
  const t = s.tasks.get(key);
  if (t === undefined) {
    const made = newTask(key, channel, member);
    made.asked = asked;
    made.goal = asked.goal;
    s.tasks.set(key, made);
    advance(s, made, out);
    return;
  }
  const { requestsPerKeyMax } = s.settings;
  if (asked.goal !== 'remove' && t.queue.length + 1 >= requestsPerKeyMax) {
    const detail = `requestsPerKeyMax ${requestsPerKeyMax}`;
    answer(s, out, asked.request, failure('resource-exhausted', 'not-executed', detail));
    return;
  }
  t.queue.push(asked);
  yieldToQueue(s, t, out);
}

/** Every membership of the lifecycle is closed and its row removed; asking again is harmless. */
function retire(s: State, request: RequestId, member: LifecycleKey, out: Out): void {
  s.open.set(request, { retiring: member });
  const running = s.retirements.get(member);
  if (running !== undefined) {
    running.requests.add(request);
    return;
  }
  const channels = new Map<string, string>();
  for (const { row } of s.rows.ofMember(member))
    channels.set(membershipKey(row.channel, member), row.channel);
  for (const t of s.tasks.values()) if (t.member === member) channels.set(t.key, t.channel);
  if (channels.size === 0) {
    answer(s, out, request, { ok: true, data: { removed: 0, disposed: 0 } });
    return;
  }
  const retirement: Retirement = {
    requests: new Set([request]),
    open: new Set(channels.keys()),
    removed: 0,
    disposed: 0,
  };
  s.retirements.set(member, retirement);
  for (const channel of channels.values()) enqueue(s, channel, member, { goal: 'remove' }, out);
}

/** The time of a request is over: it is answered now. What it began goes on without it. */
export function boundOver(s: State, request: RequestId, out: Out): void {
  const whose = s.open.get(request);
  if (whose === undefined) return;
  const late = (outcome: Failure['outcome'], detail: string): void =>
    answer(s, out, request, failure('unavailable', outcome, detail));
  if ('retiring' in whose) {
    s.retirements.get(whose.retiring)?.requests.delete(request);
    late('unknown', 'not finished in time, it goes on');
    return;
  }
  const t = s.tasks.get(whose.key);
  if (t === undefined) {
    late('unknown', 'nothing works on it');
    return;
  }
  const open = isOpenEnded(s, t);
  if (isAskedBy(t.asked, request)) {
    t.asked = undefined;
    if (open || t.wrote) {
      late('unknown', 'not finished in time, it goes on');
      yieldToQueue(s, t, out);
      return;
    }
    late('not-executed', 'could not be begun in time');
    takeNext(s, t, out);
    return;
  }
  removeFrom(t, request);
  late(open ? 'unknown' : 'not-executed', 'its turn did not come in time');
}

const isAskedBy = (a: Asked | undefined, request: RequestId): boolean =>
  a !== undefined && a.goal !== 'remove' && a.request === request;

function removeFrom(t: Task, request: RequestId): void {
  const at = t.queue.findIndex((a) => isAskedBy(a, request));
  if (at >= 0) t.queue.splice(at, 1);
}
