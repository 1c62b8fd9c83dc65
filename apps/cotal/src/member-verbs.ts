import { type Item, Member, type Notice, type Received } from '@plane3/member';
import { ERRORS, isChannel, Plane3Error } from '@plane3/protocol';
import { newUid } from '@plane3/space';
import { agentFile, type Identity, identityOf, type MeshContext } from './context.ts';
import { printable } from './output.ts';
import { proved } from './up.ts';

async function identity(
  mesh: MeshContext,
  name: string,
): Promise<Partial<Identity> & Pick<Identity, 'lifecycle'>> {
  if (mesh.record.mode === 'auth') return identityOf(agentFile(mesh, name));
  return { lifecycle: { owner: 'local', actor: name, uid: newUid() } };
}

async function withMember<T>(
  mesh: MeshContext,
  name: string,
  presence: boolean,
  act: (member: Member) => Promise<T>,
): Promise<T> {
  const { lifecycle, credentials } = await identity(mesh, name);
  const member = await Member.open({
    space: mesh.space,
    lifecycle,
    presence,
    link: {
      name: `cotal ${name}`,
      servers: mesh.servers,
      transport: mesh.transport,
      ...(credentials === undefined ? {} : { credentials }),
    },
  });
  try {
    return await act(member);
  } finally {
    await member.close();
  }
}

export const requireChannel = (channel: string): void => {
  if (!isChannel(channel))
    throw new Plane3Error('usage', {
      detail: `not a concrete channel: ${channel}`,
      help: 'use dotted segments of letters, digits, - and _; no * or >',
    });
};

/** 0: what the channel's class promises holds. 3: joined live, durable backstop unestablished. */
export async function join(mesh: MeshContext, channel: string, name: string): Promise<number> {
  requireChannel(channel);
  const report = await withMember(mesh, name, false, (m) => m.join(channel));
  const value = {
    channel,
    live: report.live,
    durable: report.durable,
    generation: report.generation ?? null,
    join_cursor: report.joinCursor ?? null,
    reason: report.reason ?? null,
    ...(report.lost === undefined ? {} : { lost: report.lost }),
  };
  mesh.out.data(value, () => {
    if (!report.live) return `${channel}: not joined (${report.reason ?? 'unknown'})`;
    if (report.durable)
      return `${channel}: joined durable (generation ${report.generation}, from ${report.joinCursor})`;
    return report.reason === undefined
      ? `${channel}: joined live`
      : `${channel}: joined live, durable backstop unestablished (${report.reason})`;
  });
  if (!report.live) return ERRORS['permission-denied'].exitCode;
  return report.durable || report.reason === undefined ? 0 : ERRORS['not-serving'].exitCode;
}

export async function leave(mesh: MeshContext, channel: string, name: string): Promise<void> {
  requireChannel(channel);
  const left = await withMember(mesh, name, false, (m) => m.leave(channel));
  if (left.kind === 'unknown')
    throw new Plane3Error('not-serving', { detail: `the leave is not confirmed: ${left.cause}` });
  if (left.kind === 'refused')
    throw new Plane3Error(left.reason === 'rejected' ? 'failed-precondition' : left.reason, {
      detail: left.detail,
    });
  const { leaveCursor, disposed, alreadyLeft } = left.value;
  mesh.out.data({ channel, leave_cursor: leaveCursor, disposed, already_left: alreadyLeft }, () =>
    alreadyLeft
      ? `${channel}: had left already`
      : `${channel}: left at ${leaveCursor}, ${disposed} pending entries disposed of`,
  );
}

export interface PostFlags {
  readonly mention?: readonly string[];
  readonly data?: string;
}

export async function post(
  mesh: MeshContext,
  channel: string,
  text: string,
  name: string,
  flags: PostFlags,
): Promise<void> {
  requireChannel(channel);
  const posted = await withMember(mesh, name, false, (m) =>
    m.post(channel, text, {
      ...(flags.mention === undefined ? {} : { mentions: flags.mention }),
      ...(flags.data === undefined ? {} : { data: parseData(flags.data) }),
    }),
  );
  if (posted.kind === 'refused' && posted.reason === 'permission-denied')
    throw new Plane3Error('permission-denied', {
      detail: posted.detail,
      help: `ask an operator: cotal agent set ${name} --write CH (the whole list)`,
    });
  const receipt = proved(posted);
  const { seq, id, guarantee } = receipt;
  mesh.out.data(
    { channel, seq, id, class: receipt.class, guarantee },
    () => `${channel} ${seq}  ${id}  ${guarantee}`,
  );
}

function parseData(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new Plane3Error('usage', { detail: '--data is not JSON' });
  }
}

export interface InboxFlags {
  readonly follow?: boolean;
  readonly peek?: boolean;
  readonly max?: number;
  readonly waitMs?: number;
}

const INBOX_MAX_DEFAULT = 1_000;
const FOLLOW_WAIT_MS = 5_000;

/** Surfaces on standard output, then confirms; a peek confirms nothing. */
export async function inbox(mesh: MeshContext, name: string, f: InboxFlags): Promise<number> {
  const stop = new AbortController();
  const handler = (): void => stop.abort();
  process.on('SIGINT', handler).on('SIGTERM', handler);
  try {
    return await withMember(mesh, name, f.follow === true, (m) => drain(mesh, m, f, stop.signal));
  } finally {
    process.off('SIGINT', handler).off('SIGTERM', handler);
  }
}

async function drain(
  mesh: MeshContext,
  member: Member,
  f: InboxFlags,
  stop: AbortSignal,
): Promise<number> {
  const max = f.max ?? INBOX_MAX_DEFAULT;
  let shown = 0;
  let last: Received | undefined;
  while (shown < max && !stop.aborted) {
    const waitMs = f.follow === true ? FOLLOW_WAIT_MS : shown === 0 ? (f.waitMs ?? 0) : 0;
    last = await member.receive({
      maxEntries: Math.min(64, max - shown),
      waitMs,
      peek: f.peek === true,
    });
    for (const notice of last.notices) showNotice(mesh, notice);
    for (const item of last.items) {
      show(mesh, item);
      shown++;
      if (f.peek === true) continue;
      const confirmed = await item.confirm();
      if (confirmed.kind !== 'done')
        mesh.out.warn(`${item.channel} ${item.id}: shown, but not confirmed; it will come again`);
    }
    if (f.follow === true) continue;
    if (last.items.length === 0 || f.peek === true) break;
  }
  if (f.follow === true) return 0;
  if (last?.mail === 'unknown') {
    mesh.out.warn(`unknown whether there is more: ${last.reason ?? 'no answer'}`);
    return ERRORS['not-serving'].exitCode;
  }
  if (shown === 0) mesh.out.note('no mail');
  return 0;
}

function show(mesh: MeshContext, item: Item): void {
  const { kind, channel, seq, id, from, text, data, redelivered } = item;
  const value = {
    kind,
    channel,
    seq: seq ?? null,
    id,
    from,
    text,
    data: data ?? null,
    redelivered,
  };
  mesh.out.line(
    value,
    () => `${channel} ${seq ?? '-'}  ${from}: ${printable(text)}${redelivered ? '  (again)' : ''}`,
  );
}

function showNotice(mesh: MeshContext, notice: Notice): void {
  const { kind, channel, reason } = notice;
  const value =
    notice.reason === 'live-gap'
      ? { kind, channel, reason, away_ms: notice.awayMs }
      : { kind, channel, reason, count: notice.count };
  mesh.out.line(value, () => `notice: ${channel}: ${reason}`);
}
