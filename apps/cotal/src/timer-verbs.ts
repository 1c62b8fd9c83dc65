import { JetStreamApi, Link, Publisher } from '@plane3/link';
import {
  bucketSubject,
  type CheckpointStatus,
  checkpointSpecKey,
  checkpointStatusKey,
  Plane3Error,
  parseTimer,
  type TimerSubject,
  timerSubject,
} from '@plane3/protocol';
import {
  fireDurable,
  mint,
  newUid,
  type ProfileArguments,
  type ProfileName,
  TrustStore,
} from '@plane3/space';
import { type MeshContext, openStanding, requireAuth } from './context.ts';
import { ago, table } from './output.ts';
import { proved } from './up.ts';

/** The endpoint under which `timers arm` makes its trials. */
const TRIAL_ENDPOINT = 'cotal-trial';
const LIST_MAX = 10_000;
/** After the due time the broker fires within its tick; more than this is a failure. */
const FIRE_SLACK_MS = 10_000;
const PULL_MARGIN_MS = 1_000;
const NS_PER_MS = 1_000_000;
/** The trial's durable ends by itself. */
const TRIAL_DURABLE_IDLE_NS = 60_000 * NS_PER_MS;

interface Armed {
  readonly timer: TimerSubject;
  readonly dueMs: number | undefined;
  readonly generation: number | undefined;
}

/** Armed schedules as the broker keeps them; read from the leader, at most {@link LIST_MAX}. */
export async function timersList(mesh: MeshContext): Promise<void> {
  requireAuth(mesh, 'timers');
  const { link } = await openStanding(mesh, 'operator');
  const nowMs = Date.now();
  try {
    const api = new JetStreamApi(link);
    const filter = `${mesh.names.prefix}.ept.*.*.*.*.armed`;
    const armed: Armed[] = [];
    let from = 1;
    while (armed.length < LIST_MAX) {
      const m = proved(await api.nextOf(mesh.names.streams.timers, filter, from));
      if (m === undefined) break;
      from = m.seq + 1;
      const timer = parseTimer(mesh.names.prefix, m.subject);
      const at = /^@at (.+)$/.exec(m.header('Nats-Schedule') ?? '')?.[1];
      if (timer === undefined || at === undefined) continue;
      armed.push({ timer, dueMs: Date.parse(at), generation: generationOf(m.body) });
    }
    const value = armed.map((a) => ({
      endpoint: a.timer.endpoint,
      timer_id: a.timer.timerId,
      generation: a.generation ?? null,
      due: a.dueMs === undefined ? null : new Date(a.dueMs).toISOString(),
      overdue: a.dueMs !== undefined && a.dueMs < nowMs - 5_000,
    }));
    mesh.out.data(value, () =>
      table(
        ['endpoint', 'timer', 'generation', 'due'],
        value.map((v) => [
          v.endpoint,
          v.timer_id,
          v.generation ?? '',
          `${v.due ?? ''}${v.overdue ? ' overdue' : ''}`,
        ]),
      ),
    );
  } finally {
    await link.close();
  }
}

function generationOf(body: Uint8Array): number | undefined {
  try {
    const n = (JSON.parse(new TextDecoder().decode(body)) as { generation?: unknown }).generation;
    return typeof n === 'number' ? n : undefined;
  } catch {
    return undefined;
  }
}

/** A checkpoint and its request, as an endpoint would make them; waits for the fire. */
export async function timersArm(mesh: MeshContext, inMs: number): Promise<void> {
  requireAuth(mesh, 'timers');
  const instanceId = newUid();
  const timerId = `trial-${newUid().slice(0, 10)}`;
  const deadline = Date.now() + inMs;
  const subject = (verb: TimerSubject['verb']): string =>
    timerSubject(mesh.names.prefix, {
      endpoint: TRIAL_ENDPOINT,
      instanceId,
      epoch: '1',
      timerId,
      verb,
    });
  const records = await minted(mesh, 'record-writer', { endpoint: TRIAL_ENDPOINT });
  const author = await minted(mesh, 'endpoint-author', { endpoint: TRIAL_ENDPOINT, instanceId });
  try {
    const stream = mesh.names.streams.timers;
    const durable = fireDurable(instanceId);
    const api = new JetStreamApi(author.link);
    const filter = timerFilter(mesh, instanceId);
    proved(
      await api.consumerCreate(stream, {
        durable_name: durable,
        filter_subject: filter,
        ack_policy: 'explicit',
        inactive_threshold: TRIAL_DURABLE_IDLE_NS,
      }),
    );
    const status: CheckpointStatus = { state: 'waiting', deadlineGeneration: 1, deadline };
    await records.write(
      bucketSubject(mesh.names.buckets.records, checkpointSpecKey(TRIAL_ENDPOINT, timerId)),
      { kind: 'trial' },
    );
    await records.write(
      bucketSubject(mesh.names.buckets.records, checkpointStatusKey(TRIAL_ENDPOINT, timerId)),
      status,
    );
    await author.write(subject('schedule'), { v: 1, timerId, generation: 1, deadline });
    mesh.out.note(`requested ${timerId}, due in ${ago(inMs)}`);
    const body = await nextFire(author.link, stream, durable, inMs + FIRE_SLACK_MS);
    const lateMs = Date.now() - deadline;
    await records.write(
      bucketSubject(mesh.names.buckets.records, checkpointStatusKey(TRIAL_ENDPOINT, timerId)),
      { ...status, state: 'expired' },
    );
    const value = {
      timer_id: timerId,
      fired: true,
      late_ms: lateMs,
      generation: generationOf(body) ?? null,
    };
    mesh.out.data(value, () => `${timerId} fired, ${lateMs} ms after it was due`);
  } finally {
    await Promise.all([records.close(), author.close()]);
  }
}

const timerFilter = (mesh: MeshContext, instanceId: string): string =>
  `${mesh.names.prefix}.ept.${TRIAL_ENDPOINT}.${instanceId}.*.*.fire`;

/**
 * A fire is stored and published to nobody: the instance pulls it from its own durable, into an
 * inbox of its own, as a pulled message bears the subject under which it was stored.
 */
async function nextFire(
  link: Link,
  stream: string,
  durable: string,
  waitMs: number,
): Promise<Uint8Array> {
  const inbox = `${link.inboxPrefix}.fire`;
  let end: (body: Uint8Array | undefined) => void = () => {};
  const fired = new Promise<Uint8Array | undefined>((ok) => {
    end = ok;
  });
  const sub = proved(
    await link.subscribe(inbox, (m) => {
      const isStatus = (m.headers?.code ?? 0) !== 0;
      if (!isStatus) m.respond();
      end(isStatus ? undefined : m.data);
    }),
  );
  const timer = setTimeout(() => end(undefined), waitMs + PULL_MARGIN_MS);
  const pull = JSON.stringify({ batch: 1, expires: waitMs * NS_PER_MS });
  link.publish(`$JS.API.CONSUMER.MSG.NEXT.${stream}.${durable}`, new TextEncoder().encode(pull), {
    reply: inbox,
  });
  const body = await fired;
  clearTimeout(timer);
  sub.unsubscribe();
  if (body !== undefined) return body;
  throw new Plane3Error('timed-out', {
    detail: 'the timer did not fire',
    help: 'look at the schedule writer: cotal status',
  });
}

async function minted<P extends ProfileName>(
  mesh: MeshContext,
  profile: P,
  args: ProfileArguments[P],
): Promise<{
  link: Link;
  write(subject: string, value: unknown): Promise<void>;
  close(): Promise<void>;
}> {
  const trust = new TrustStore(mesh.root).open(mesh.space);
  const m = await mint({ trust, names: mesh.names, profile, args, lifetimeMs: 3_600_000 });
  const creds = new TextEncoder().encode(m.creds);
  const { servers, transport } = mesh;
  const link = await Link.open({
    name: `cotal ${profile}`,
    servers,
    transport,
    credentials: () => creds,
  });
  const publisher = new Publisher(link);
  return {
    link,
    write: async (subject, value) => {
      const body = new TextEncoder().encode(JSON.stringify(value));
      proved(await publisher.publish(subject, body, undefined));
    },
    close: async () => {
      publisher.close();
      await link.close();
    },
  };
}
