import type { ApiRefusal, ConsumerInfo, JetStreamApi, StreamInfo } from '@plane3/link';
import { done, type Outcome, refused, type SpaceNames } from '@plane3/protocol';
import type { OpenRefusal } from '../ports.ts';

/** The first broker that fires schedules; older ones take them without effect. */
export const SCHEDULES_VERSION_MIN = '2.12.0';

export interface DurableWish {
  readonly stream: string;
  readonly name: string;
  readonly filter: string;
  readonly ackWaitMs: number;
}

const NS_PER_MS = 1_000_000;

export function checkVersion(version: string): Outcome<void, OpenRefusal> {
  const have = numbersOf(version);
  const want = numbersOf(SCHEDULES_VERSION_MIN);
  for (let i = 0; i < want.length; i++) {
    const a = have[i] ?? 0;
    const b = want[i] ?? 0;
    if (a > b) break;
    if (a < b) return refused('broker-too-old', `broker ${version} < ${SCHEDULES_VERSION_MIN}`);
  }
  return done(undefined);
}

const numbersOf = (version: string): readonly number[] =>
  /^v?(\d+)\.(\d+)\.(\d+)/.exec(version)?.slice(1).map(Number) ?? [];

/** Reads back what the space was made with: a setting that an old broker dropped shows here. */
export async function checkStreams(
  api: JetStreamApi,
  names: SpaceNames,
): Promise<Outcome<void, OpenRefusal>> {
  const { timerRequests, timers } = names.streams;
  for (const [stream, isScheduler] of [
    [timerRequests, false],
    [timers, true],
  ] as const) {
    const info = await api.streamInfo(stream);
    if (info.kind !== 'done') return translated(info, stream);
    const fault = isScheduler
      ? timerStreamFault(info.value, names.prefix)
      : requestStreamFault(info.value, names.prefix);
    if (fault !== undefined) return refused('stream-mismatch', `${stream}: ${fault}`);
  }
  return done(undefined);
}

function requestStreamFault({ config }: StreamInfo, prefix: string): string | undefined {
  const { allow_msg_schedules } = config as { allow_msg_schedules?: boolean };
  if (allow_msg_schedules === true) return 'schedules must be off where agents publish';
  return missingSubject(config.subjects, [`${prefix}.ept.*.*.*.*.schedule`]);
}

function timerStreamFault({ config }: StreamInfo, prefix: string): string | undefined {
  const { allow_msg_schedules } = config as { allow_msg_schedules?: boolean };
  if (allow_msg_schedules !== true) return 'schedules are off';
  if (config.retention !== 'limits') return `retention ${config.retention}, needs limits`;
  if (config.discard === 'new') return 'discards new messages when full: due ones would be stuck';
  const subjects = ['armed', 'fire'].map((verb) => `${prefix}.ept.*.*.*.*.${verb}`);
  return missingSubject(config.subjects, subjects);
}

const missingSubject = (have: readonly string[], want: readonly string[]): string | undefined => {
  const missing = want.find((s) => !have.includes(s));
  return missing === undefined ? undefined : `does not take ${missing}`;
};

/** Makes the durable, or changes it where it may be changed: its position stays. Read back. */
export async function ensureDurable(
  api: JetStreamApi,
  wish: DurableWish,
): Promise<Outcome<void, OpenRefusal>> {
  const config = {
    durable_name: wish.name,
    ack_policy: 'explicit',
    deliver_policy: 'all',
    filter_subject: wish.filter,
    ack_wait: wish.ackWaitMs * NS_PER_MS,
    max_deliver: -1,
    // What is put back for later counts as pending: a bound here would let such requests block.
    max_ack_pending: -1,
  } as unknown as Parameters<JetStreamApi['consumerCreate']>[1] & { durable_name: string };
  let made = await api.consumerCreate(wish.stream, config);
  if (made.kind === 'refused' && made.reason === 'conflict')
    made = await api.consumerUpdate(wish.stream, wish.name, config);
  if (made.kind !== 'done') return translated(made, `${wish.stream} ${wish.name}`);
  const fault = durableFault(made.value, wish);
  return fault === undefined
    ? done(undefined)
    : refused('stream-mismatch', `durable ${wish.name}: ${fault}`);
}

function durableFault({ config }: ConsumerInfo, wish: DurableWish): string | undefined {
  const have: Record<string, unknown> = { ...config };
  const want = {
    ack_policy: 'explicit',
    filter_subject: wish.filter,
    ack_wait: wish.ackWaitMs * NS_PER_MS,
    max_ack_pending: -1,
  };
  for (const [key, value] of Object.entries(want))
    if (have[key] !== value) return `${key} is ${String(have[key])}, needs ${String(value)}`;
  return undefined;
}

/** An API answer in the words of the port. */
export function translated(
  o: Exclude<Outcome<unknown, ApiRefusal>, { kind: 'done' }>,
  what: string,
): Exclude<Outcome<never, OpenRefusal>, { kind: 'done' }> {
  if (o.kind === 'unknown') return o;
  if (o.reason === 'not-found') return refused('stream-missing', what);
  if (o.reason === 'permission-denied') return refused('permission-denied', `${what} ${o.detail}`);
  return refused('rejected', `${what}: ${o.detail}`);
}
