import { type Link, openLink } from '@plane3/link';
import {
  bucketStream,
  bucketSubject,
  type CheckpointStatus,
  checkpointStatusKey,
  type SpaceNames,
  spaceNames,
} from '@plane3/protocol';
import { ScheduleWriter, type ScheduleWriterSettings } from '@plane3/schedule-writer';
import { type NatsSessionOptions, natsSessions } from '@plane3/schedule-writer/nats';
import { type NatsProc, startNats } from '@plane3/testkit';
import { type TestUser, testUser } from './user.ts';

const DAY_NS = 86_400_000_000_000;

/** Two accounts as in a space: agents in one, the vault in the other. */
const config = (users: Record<User, TestUser>, grants: Grants): string => `
accounts {
  S { jetstream: enabled, users: [
    { nkey: ${users.s.nkey} }
    { nkey: ${users.ts.nkey}, permissions: ${permissions(users.ts, grants.space)} }
  ] }
  V { jetstream: enabled, users: [
    { nkey: ${users.v.nkey} }
    { nkey: ${users.tv.nkey}, permissions: ${permissions(users.tv, grants.vault)} }
  ] }
}
`;

/** What may be published; answers come to the own inbox only. */
const permissions = (user: TestUser, publish: readonly string[]): string =>
  `{ publish: ${JSON.stringify(publish)}, subscribe: ["_INBOX_${user.nkey}.>"] }`;

export interface Grants {
  readonly space: readonly string[];
  readonly vault: readonly string[];
}

/** All that the writer needs of a broker (wire contract section 8): what it does without fails. */
export function writerGrants(names: SpaceNames): Grants {
  const { timerRequests, timers } = names.streams;
  const durable = `${timerRequests}.${names.durables.timers}`;
  const ept = `${names.prefix}.ept.*.*.*.*`;
  return {
    space: [
      `$JS.API.STREAM.INFO.${timerRequests}`,
      `$JS.API.STREAM.INFO.${timers}`,
      `$JS.API.STREAM.MSG.GET.${timers}`,
      `$JS.API.STREAM.PURGE.${timers}`,
      `$JS.API.CONSUMER.CREATE.${durable}.${ept}.schedule`,
      `$JS.API.CONSUMER.MSG.NEXT.${durable}`,
      `$JS.ACK.${durable}.>`,
      `${ept}.armed`,
    ],
    vault: [`$JS.API.STREAM.MSG.GET.${bucketStream(names.buckets.records)}`],
  };
}

export interface TestSpace {
  readonly nats: NatsProc;
  readonly names: SpaceNames;
  /** An agent's connection, and the record writer's. */
  readonly agent: Link;
  readonly vault: Link;
  open(user: User, name?: string): Promise<Link>;
  api(account: 's' | 'v', operation: string, payload?: object): Promise<Record<string, unknown>>;
  makeStreams(o?: { readonly timers?: object }): Promise<void>;
  setStatus(timerId: string, s: CheckpointStatus | 'unreadable', endpoint?: string): Promise<void>;
  /** Every fire that is stored, in order. */
  fires(): Promise<readonly StoredFire[]>;
  stop(): Promise<void>;
}

interface StoredFire {
  readonly subject: string;
  readonly atMs: number;
  readonly body: unknown;
  readonly headers: string;
}

/** All may: `s` in the space, `v` in the vault. The writer: `ts` and `tv`. */
type User = 's' | 'v' | 'ts' | 'tv';

/** `grants`: of the writer; default all that it needs, and nothing else. */
export async function startSpace(grants?: Grants): Promise<TestSpace> {
  const names = spaceNames('main');
  const users = { s: testUser('s'), v: testUser('v'), ts: testUser('ts'), tv: testUser('tv') };
  const nats = await startNats({ config: config(users, grants ?? writerGrants(names)) });
  const open = (user: User, name = 'test'): Promise<Link> =>
    openLink({
      name,
      servers: [nats.url],
      transport: { kind: 'plain' },
      credentials: () => users[user].creds,
    });
  const agent = await open('s', 'agent');
  const vault = await open('v', 'records');
  const api: TestSpace['api'] = async (account, operation, payload = {}) => {
    const { nc } = account === 's' ? agent : vault;
    const m = await nc.request(`$JS.API.${operation}`, JSON.stringify(payload), { timeout: 5_000 });
    return m.json<Record<string, unknown>>();
  };
  const create = async (account: 's' | 'v', config: { name: string; [k: string]: unknown }) => {
    const answer = await api(account, `STREAM.CREATE.${config.name}`, config);
    if (answer['error'] !== undefined) throw new Error(JSON.stringify(answer['error']));
  };
  const P = names.prefix;
  return {
    nats,
    names,
    agent,
    vault,
    open,
    api,
    makeStreams: async (o = {}) => {
      await create('s', {
        name: names.streams.timerRequests,
        subjects: [`${P}.ept.*.*.*.*.schedule`],
        max_age: DAY_NS,
      });
      await create('s', {
        name: names.streams.timers,
        subjects: [`${P}.ept.*.*.*.*.armed`, `${P}.ept.*.*.*.*.fire`],
        allow_msg_schedules: true,
        allow_rollup_hdrs: true,
        max_age: 31 * DAY_NS,
        ...o.timers,
      });
      await create('v', {
        name: bucketStream(names.buckets.records),
        subjects: [`$KV.${names.buckets.records}.>`],
        max_msgs_per_subject: 1,
      });
    },
    setStatus: async (timerId, s, endpoint = 'flow') => {
      const key = checkpointStatusKey(endpoint, timerId);
      const value = s === 'unreadable' ? '{"state":1}' : JSON.stringify(s);
      await vault.nc.request(bucketSubject(names.buckets.records, key), value, { timeout: 5_000 });
    },
    fires: async () => {
      const found: StoredFire[] = [];
      for (let seq = 1; ; ) {
        const answer = await api('s', `STREAM.MSG.GET.${names.streams.timers}`, {
          seq,
          next_by_subj: `${P}.ept.*.*.*.*.fire`,
        });
        const m = answer['message'] as
          | { subject: string; seq: number; data: string; hdrs: string; time: string }
          | undefined;
        if (m === undefined) return found;
        found.push({
          subject: m.subject,
          atMs: Date.parse(m.time),
          body: JSON.parse(Buffer.from(m.data, 'base64').toString()),
          headers: Buffer.from(m.hdrs ?? '', 'base64').toString(),
        });
        seq = m.seq + 1;
      }
    },
    stop: async () => {
      await Promise.all([agent.close(), vault.close()]);
      await nats.stop();
    },
  };
}

export const sessionsOf = (s: TestSpace, o: Partial<NatsSessionOptions> = {}) =>
  natsSessions({
    names: s.names,
    openSpace: () => s.open('ts', 'timers space'),
    openVault: () => s.open('tv', 'timers vault'),
    ackWaitMs: 1_000,
    ...o,
  });

const SYSTEM = {
  clock: { wallMs: () => Date.now(), monotonicMs: () => performance.now() },
  timers: {
    after: (ms: number, f: () => void) => {
      const t = setTimeout(f, ms);
      t.unref();
      return () => clearTimeout(t);
    },
  },
  random: Math.random,
};

export const writerOn = (
  s: TestSpace,
  o: Partial<ScheduleWriterSettings> = {},
  sessions: Partial<NatsSessionOptions> = {},
): ScheduleWriter =>
  new ScheduleWriter(
    { ...SYSTEM, sessions: sessionsOf(s, sessions) },
    {
      prefix: s.names.prefix,
      pullWaitMs: 1_000,
      retryMsMin: 50,
      supervisor: { backOffMsMin: 100, backOffMsMax: 300, sustainedMs: 60_000 },
      ...o,
    },
  );
