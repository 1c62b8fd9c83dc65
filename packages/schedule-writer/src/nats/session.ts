import { JetStreamApi, type Link, Publisher } from '@plane3/link';
import {
  bucketStream,
  bucketSubject,
  done,
  ERRORS,
  isPlane3Error,
  type Outcome,
  refused,
  type SpaceNames,
  unknown,
} from '@plane3/protocol';
import type { OpenRefusal, Session, Sessions } from '../ports.ts';
import { checkStreams, checkVersion, ensureDurable, translated } from './check.ts';
import { NatsCheckpoints } from './checkpoints.ts';
import { NatsSchedules } from './schedules.ts';
import { NatsRequestSource } from './source.ts';

/** A request that a writer took to its grave is handed over again after this. */
export const ACK_WAIT_MS = 30_000;

export interface NatsSessionOptions {
  readonly names: SpaceNames;
  /** Opens a connection of the writer's own to the space account; called at every attempt. */
  readonly openSpace: () => Promise<Link>;
  /** The same to the vault. */
  readonly openVault: () => Promise<Link>;
  readonly ackWaitMs?: number;
}

/** Sessions on a real broker. Both connections live and end with the session. */
export const natsSessions = (o: NatsSessionOptions): Sessions => ({ open: () => open(o) });

async function open(o: NatsSessionOptions): Promise<Outcome<Session, OpenRefusal>> {
  const links: Link[] = [];
  let session: Session | undefined;
  try {
    const space = await o.openSpace();
    links.push(space);
    const vault = await o.openVault();
    links.push(vault);
    const opened = await build(o, space, vault);
    if (opened.kind === 'done') session = opened.value;
    return opened;
  } catch (e) {
    return failureOf(e);
  } finally {
    if (session === undefined) await Promise.allSettled(links.map((l) => l.close()));
  }
}

async function build(
  o: NatsSessionOptions,
  space: Link,
  vault: Link,
): Promise<Outcome<Session, OpenRefusal>> {
  const { names } = o;
  const api = new JetStreamApi(space);
  const durable = {
    stream: names.streams.timerRequests,
    name: names.durables.timers,
    filter: `${names.prefix}.ept.*.*.*.*.schedule`,
    ackWaitMs: o.ackWaitMs ?? ACK_WAIT_MS,
  };
  const vaultApi = new JetStreamApi(vault);
  for (const check of [
    () => Promise.resolve(checkVersion(space.serverVersion)),
    () => checkStreams(api, names),
    () => checkRecords(vaultApi, names.buckets.records),
    () => ensureDurable(api, durable),
  ]) {
    const checked = await check();
    if (checked.kind !== 'done') return checked;
  }
  const source = await NatsRequestSource.open(space, {
    stream: durable.stream,
    durable: durable.name,
  });
  if (source.kind !== 'done') return source;
  const publisher = new Publisher(space);
  const stream = names.streams.timers;
  return done({
    requests: source.value,
    checkpoints: new NatsCheckpoints(vaultApi, names.buckets.records),
    schedules: new NatsSchedules({ api, publisher, stream, prefix: names.prefix }),
    close: async () => {
      source.value.close();
      publisher.close();
      await Promise.allSettled([space.close(), vault.close()]);
    },
  });
}

/** A key that no endpoint uses: that it is absent proves the bucket, the right and the answer. */
const PROBE_KEY = '_probe';

async function checkRecords(
  vault: JetStreamApi,
  bucket: string,
): Promise<Outcome<void, OpenRefusal>> {
  const row = await vault.lastOf(bucketStream(bucket), bucketSubject(bucket, PROBE_KEY));
  return row.kind === 'done' ? done(undefined) : translated(row, bucketStream(bucket));
}

function failureOf(e: unknown): Exclude<Outcome<never, OpenRefusal>, { kind: 'done' }> {
  if (!isPlane3Error(e)) return unknown(e instanceof Error ? e.message : String(e));
  if (ERRORS[e.code].family === 'credential') return refused('credential', e.message);
  if (e.code === 'transport-refused') return refused('transport', e.message);
  return unknown(e.message);
}
