import { bucketStream, Plane3Error, PRESENCE_TTL_MS, type SpaceNames } from '@plane3/protocol';
import { LEASE_TTL_MS_DEFAULT, LEASE_TTL_MS_MIN } from './layout.ts';

/**
 * The streams and buckets of a space as data (wire contract section 4). Fields are those of the
 * broker's stream configuration; durations are nanoseconds there.
 */
export interface StreamConfig {
  readonly name: string;
  readonly subjects: readonly string[];
  readonly retention: 'limits' | 'workqueue';
  readonly storage: 'file';
  readonly discard: 'old' | 'new';
  readonly discard_new_per_subject?: true;
  readonly num_replicas: number;
  readonly max_age: number;
  readonly max_msgs: number;
  readonly max_bytes: number;
  readonly max_msgs_per_subject: number;
  readonly max_consumers: number;
  readonly duplicate_window: number;
  readonly allow_direct: boolean;
  readonly allow_rollup_hdrs: boolean;
  readonly deny_delete: boolean;
  readonly deny_purge: boolean;
  readonly allow_msg_ttl?: true;
  readonly allow_msg_schedules?: true;
  readonly allow_atomic?: true;
}

/** What a broker may lack; delivery serves without any of them. */
export type Capability = 'message-ttl' | 'schedules' | 'atomic-batch';

export const CAPABILITY_FIELD: Readonly<Record<Capability, keyof StreamConfig>> = {
  'message-ttl': 'allow_msg_ttl',
  schedules: 'allow_msg_schedules',
  'atomic-batch': 'allow_atomic',
};

export type StreamRole =
  | 'chat'
  | 'dm'
  | 'task'
  | 'dlv'
  | 'timer-requests'
  | 'timers'
  | 'contracts'
  | 'presence'
  | 'channels-display'
  | 'lease-display'
  | 'membership-feed'
  | 'inbox'
  | 'dead'
  | 'channels'
  | 'members'
  | 'acl'
  | 'lease'
  | 'records'
  | 'state';

export interface StreamSpec {
  readonly role: StreamRole;
  readonly account: 'space' | 'vault';
  readonly config: StreamConfig;
  /**
   * Holds what cannot be made again. If one of these is missing beside another that has content,
   * the store was lost: refused, not recreated.
   */
  readonly truth: boolean;
}

export interface StreamSettings {
  /** 1 on one machine, 3 on a cluster. */
  readonly replicas?: number;
  readonly leaseTtlMs?: number;
}

/**
 * Brokers from 2.15 on cap a stream at 1,000 consumers while showing -1, so the number is written
 * down wherever each member may hold one.
 */
export const CONSUMERS_MAX = 100_000;
export const CHAT_POSTS_PER_SENDER_MAX = 1_000;
const TIMER_REQUEST_AGE_MS_MAX = 86_400_000;
const TIMER_AGE_MS_MAX = 31 * 86_400_000;
const DUPLICATE_WINDOW_MS = 120_000;

const NS_PER_MS = 1_000_000;

/** Every stream and bucket of both accounts, in the order in which they are made. */
export function streamSpecs(names: SpaceNames, settings: StreamSettings = {}): StreamSpec[] {
  const replicas = settings.replicas ?? 1;
  const leaseTtlMs = settings.leaseTtlMs ?? LEASE_TTL_MS_DEFAULT;
  if (leaseTtlMs < LEASE_TTL_MS_MIN)
    throw new Plane3Error('settings-invalid', {
      detail: `a lease TTL of ${leaseTtlMs} ms is below ${LEASE_TTL_MS_MIN} ms`,
    });
  return [...spaceSpecs(names, replicas, leaseTtlMs), ...vaultSpecs(names, replicas, leaseTtlMs)];
}

export function streamSpec(specs: readonly StreamSpec[], role: StreamRole): StreamSpec {
  const found = specs.find((s) => s.role === role);
  if (found === undefined) throw new Plane3Error('defect', { detail: `no stream for ${role}` });
  return found;
}

/** What the daemon cannot serve without and may look at with its own credentials. */
const DELIVERY_ROLES: ReadonlySet<StreamRole> = new Set<StreamRole>([
  'chat',
  'dlv',
  'timer-requests',
  'timers',
  'contracts',
  'presence',
  'channels-display',
  'lease-display',
  'inbox',
  'dead',
  'acl',
  'channels',
  'members',
  'lease',
  'records',
  'state',
]);

export const deliverySpecs = (
  specs: readonly StreamSpec[],
  account: 'space' | 'vault',
): StreamSpec[] => specs.filter((s) => s.account === account && DELIVERY_ROLES.has(s.role));

function spaceSpecs(names: SpaceNames, replicas: number, leaseTtlMs: number): StreamSpec[] {
  const { streams, buckets, prefix: P } = names;
  const make = (role: StreamRole, config: StreamConfig): StreamSpec => ({
    role,
    account: 'space',
    config: { ...config, num_replicas: replicas },
    truth: false,
  });
  return [
    make('chat', {
      ...base(streams.chat, [`${P}.chat.>`]),
      max_msgs_per_subject: CHAT_POSTS_PER_SENDER_MAX,
      allow_direct: true,
      max_consumers: CONSUMERS_MAX,
    }),
    make('dm', { ...base(streams.dm, [`${P}.inst.>`]), max_consumers: CONSUMERS_MAX }),
    make('task', { ...base(streams.task, [`${P}.svc.>`]), retention: 'workqueue' }),
    // No age and no per-subject limit: the fence must stay, and a copy that a limit drops would
    // look like one that was taken.
    make('dlv', {
      ...base(streams.dlv, [`${P}.dlv.>`]),
      max_consumers: CONSUMERS_MAX,
      allow_msg_ttl: true,
    }),
    make('timer-requests', {
      ...base(streams.timerRequests, [`${P}.ept.*.*.*.*.schedule`]),
      ...aged(TIMER_REQUEST_AGE_MS_MAX),
    }),
    // The broker turns roll-ups on with schedules, so they are asked for: the read-back is exact.
    make('timers', {
      ...base(streams.timers, [`${P}.ept.*.*.*.*.armed`, `${P}.ept.*.*.*.*.fire`]),
      ...aged(TIMER_AGE_MS_MAX),
      allow_rollup_hdrs: true,
      allow_msg_schedules: true,
    }),
    // Create-only is the broker's doing: a second artifact on a subject is refused.
    make('contracts', {
      ...base(streams.contracts, [`${P}.epc.*`]),
      max_msgs_per_subject: 1,
      discard: 'new',
      discard_new_per_subject: true,
      deny_delete: true,
      deny_purge: true,
    }),
    make('presence', {
      ...bucket(buckets.presence),
      ...aged(PRESENCE_TTL_MS),
      max_consumers: CONSUMERS_MAX,
    }),
    make('channels-display', { ...bucket(buckets.channels), max_consumers: CONSUMERS_MAX }),
    make('lease-display', { ...bucket(buckets.lease), ...aged(leaseTtlMs) }),
    make('membership-feed', bucket(buckets.membership)),
  ];
}

function vaultSpecs(names: SpaceNames, replicas: number, leaseTtlMs: number): StreamSpec[] {
  const { streams, buckets, prefix: P } = names;
  const make = (role: StreamRole, config: StreamConfig, truth = false): StreamSpec => ({
    role,
    account: 'vault',
    config: { ...config, num_replicas: replicas },
    truth,
  });
  return [
    make('acl', bucket(buckets.acl), true),
    make('channels', bucket(buckets.channels)),
    make('members', bucket(buckets.members), true),
    // No age: the broker would drop unread entries in silence, and with them the fence and the
    // cursor. Full means full: writing is refused, nothing unread is dropped.
    make(
      'inbox',
      {
        ...base(streams.inbox, [`${P}.dinbox.>`]),
        discard: 'new',
        allow_direct: true,
        allow_msg_ttl: true,
        allow_atomic: true,
      },
      true,
    ),
    make('dead', {
      ...base(streams.dead, [`${P}.dead.>`]),
      discard: 'new',
      allow_direct: true,
    }),
    make('lease', { ...bucket(buckets.lease), ...aged(leaseTtlMs) }),
    make('records', bucket(buckets.records)),
    // Receipts are kept for a day by a TTL of their own.
    make('state', { ...bucket(buckets.state), allow_msg_ttl: true }),
  ];
}

/**
 * No roll-ups anywhere unless said: whoever may publish one subject of a stream could clear the
 * whole of it by a header.
 */
function base(name: string, subjects: readonly string[]): StreamConfig {
  return {
    name,
    subjects,
    retention: 'limits',
    storage: 'file',
    discard: 'old',
    num_replicas: 1,
    max_age: 0,
    max_msgs: -1,
    max_bytes: -1,
    max_msgs_per_subject: -1,
    max_consumers: -1,
    duplicate_window: DUPLICATE_WINDOW_MS * NS_PER_MS,
    allow_direct: false,
    allow_rollup_hdrs: false,
    deny_delete: false,
    deny_purge: false,
  };
}

/** A bucket is the stream `KV_<bucket>` on `$KV.<bucket>.>` with one value a key. */
function bucket(name: string): StreamConfig {
  return {
    ...base(bucketStream(name), [`$KV.${name}.>`]),
    discard: 'new',
    max_msgs_per_subject: 1,
    deny_delete: true,
  };
}

/** The broker refuses a duplicate window longer than the age. */
const aged = (ageMs: number): Pick<StreamConfig, 'max_age' | 'duplicate_window'> => ({
  max_age: ageMs * NS_PER_MS,
  duplicate_window: Math.min(DUPLICATE_WINDOW_MS, ageMs) * NS_PER_MS,
});
