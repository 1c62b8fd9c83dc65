import { type ApiRefusal, Bucket, type Link, Publisher } from '@plane3/link';
import {
  CHANNEL_DEFAULTS_KEY,
  type DeliveryClass,
  done,
  type Outcome,
  Plane3Error,
  refused,
  type SpaceNames,
} from '@plane3/protocol';
import { compareStream, type StreamReport } from '../stream-compare.ts';
import type { StreamSpec } from '../streams.ts';
import { StreamApi, type StreamState } from './stream-api.ts';

export type ProvisionRefusal = 'permission-denied' | 'rejected';

/**
 * Makes what is missing of one account's streams, repairs what differs and can be changed, and
 * reads everything back. Idempotent; never deletes. `specs` are those of the link's account.
 */
export async function provisionStreams(
  link: Link,
  specs: readonly StreamSpec[],
): Promise<Outcome<StreamReport[], ProvisionRefusal>> {
  const api = new StreamApi(link);
  const found = await lookAtAll(api, specs);
  if (found.kind !== 'done') return found;
  const beside = specs
    .filter((s) => s.truth && (found.value.get(s.config.name)?.messages ?? 0) > 0)
    .map((s) => s.config.name);
  const reports: StreamReport[] = [];
  for (const spec of specs) {
    const state = found.value.get(spec.config.name);
    if (state === undefined && spec.truth && beside.length > 0) {
      reports.push({ ...head(spec), lacks: [], kind: 'lost', beside });
      continue;
    }
    const report = await settle(api, spec, state);
    if (report.kind !== 'done') return report;
    reports.push(report.value);
  }
  return done(reports);
}

/** Looks only: for the daemon's start and for diagnosis. */
export async function verifyStreams(
  link: Link,
  specs: readonly StreamSpec[],
): Promise<Outcome<StreamReport[], ProvisionRefusal>> {
  const found = await lookAtAll(new StreamApi(link), specs);
  if (found.kind !== 'done') return found;
  return done(
    specs.map((spec): StreamReport => {
      const state = found.value.get(spec.config.name);
      if (state === undefined) return { ...head(spec), lacks: [], kind: 'missing' };
      return reportOf(spec, state, 'same', '');
    }),
  );
}

/**
 * Writes the default delivery class of a new space; an existing value is never overwritten.
 * Answers whether it was written.
 */
export async function writeDefaults(
  link: Link,
  names: SpaceNames,
  deliveryClass: DeliveryClass,
): Promise<Outcome<boolean, ProvisionRefusal>> {
  const publisher = new Publisher(link);
  try {
    const channels = new Bucket(link, publisher, names.buckets.channels);
    const known = await channels.get(CHANNEL_DEFAULTS_KEY);
    if (known.kind === 'unknown') return known;
    if (known.kind === 'refused') return refused(narrow(known.reason), known.detail);
    if (known.value !== undefined) return done(false);
    const value = new TextEncoder().encode(JSON.stringify({ deliveryClass }));
    const put = await channels.put(CHANNEL_DEFAULTS_KEY, value, 0);
    if (put.kind === 'done') return done(true);
    if (put.kind === 'unknown') return put;
    // Somebody else wrote it between the look and the write: theirs stands.
    if (put.reason === 'wrong-sequence') return done(false);
    return refused(put.reason === 'permission-denied' ? put.reason : 'rejected', put.detail);
  } finally {
    publisher.close();
  }
}

type Found = Map<string, StreamState>;

async function lookAtAll(
  api: StreamApi,
  specs: readonly StreamSpec[],
): Promise<Outcome<Found, ProvisionRefusal>> {
  const found: Found = new Map();
  for (const { config } of specs) {
    const state = await api.info(config.name);
    if (state.kind === 'unknown') return state;
    if (state.kind === 'done') found.set(config.name, state.value);
    else if (state.reason !== 'not-found')
      return refused(narrow(state.reason), `${config.name}: ${state.detail}`);
  }
  return done(found);
}

async function settle(
  api: StreamApi,
  spec: StreamSpec,
  state: StreamState | undefined,
): Promise<Outcome<StreamReport, ProvisionRefusal>> {
  if (state !== undefined) {
    const first = compareStream(spec, state.config);
    if (first.differences.length === 0) return done(reportOf(spec, state, 'same', ''));
  }
  const write = state === undefined ? await api.create(spec.config) : await api.update(spec.config);
  if (write.kind === 'unknown') return write;
  const detail = write.kind === 'refused' ? write.detail : '';
  if (write.kind === 'refused' && (state === undefined || write.reason === 'permission-denied'))
    return refused(narrow(write.reason), `${spec.config.name}: ${detail}`);
  const back = await api.info(spec.config.name);
  if (back.kind === 'unknown') return back;
  if (back.kind === 'refused')
    return refused(narrow(back.reason), `${spec.config.name}: ${back.detail}`);
  const kind = state === undefined ? 'created' : 'repaired';
  return done(reportOf(spec, back.value, kind, detail));
}

function reportOf(
  spec: StreamSpec,
  state: StreamState,
  good: 'created' | 'same' | 'repaired',
  detail: string,
): StreamReport {
  const { differences, lacks } = compareStream(spec, state.config);
  if (differences.length === 0) return { ...head(spec), lacks, kind: good };
  return { ...head(spec), lacks, kind: 'mismatch', differences, detail };
}

const head = (spec: StreamSpec) => ({
  role: spec.role,
  name: spec.config.name,
  account: spec.account,
});

const narrow = (reason: ApiRefusal): ProvisionRefusal =>
  reason === 'permission-denied' ? reason : 'rejected';

/**
 * @throws Plane3Error `stream-missing` or `stream-mismatch`, naming every stream and field, if the
 * space cannot serve on these reports
 */
export function requireWhole(reports: readonly StreamReport[]): void {
  const gone = reports.filter((r) => r.kind === 'missing' || r.kind === 'lost');
  if (gone.length > 0)
    throw new Plane3Error('stream-missing', {
      detail: gone.map((r) => (r.kind === 'lost' ? `${r.name} is lost` : r.name)).join(', '),
      context: { reports: gone },
      ...(gone.some((r) => r.kind === 'lost')
        ? { help: 'content is left beside it: bring the folder of the store back from a backup' }
        : {}),
    });
  const wrong = reports.flatMap((r) => (r.kind === 'mismatch' ? [r] : []));
  if (wrong.length === 0) return;
  const text = wrong.flatMap((r) =>
    r.differences.map(
      (d) => `${r.name}.${d.field} is ${JSON.stringify(d.have)}, not ${JSON.stringify(d.want)}`,
    ),
  );
  throw new Plane3Error('stream-mismatch', {
    detail: text.join('; '),
    context: { reports: wrong },
  });
}
