import { type Link, type LinkEvent, type LinkOptions, openLink } from '@plane3/link';
import { type NatsProc, startNats, startRelay } from '@plane3/testkit';
import { later } from './cleanup.ts';
import { type Mesh, startMesh } from './operator.ts';

export type { LinkEvent };

export const utf8 = (text: string): Uint8Array => new TextEncoder().encode(text);
export const text = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);

export const broker = async (o: Parameters<typeof startNats>[0] = {}): Promise<NatsProc> =>
  later(await startNats(o), (n) => n.stop());

export async function mesh(o: Parameters<typeof startMesh>[0] = {}): Promise<Mesh> {
  return later(await startMesh(o), (m) => m.nats.stop());
}

export const relayTo = async (target: string | number) =>
  later(await startRelay(target), (r) => r.stop());

export async function link(url: string, o: Partial<LinkOptions> = {}): Promise<Link> {
  const options: LinkOptions = { name: 'test', servers: [url], transport: { kind: 'plain' }, ...o };
  return later(await openLink(options), (l) => l.close());
}

/** A link and every event of it. */
export async function watched(
  url: string,
  o: Partial<LinkOptions> = {},
): Promise<{ link: Link; events: LinkEvent[]; kinds: () => string[] }> {
  const events: LinkEvent[] = [];
  const opened = await link(url, { ...o, onEvent: (e) => events.push(e) });
  return { link: opened, events, kinds: () => events.map((e) => e.kind) };
}

export const apiCall = async (l: Link, operation: string, payload: unknown): Promise<unknown> => {
  const m = await l.nc.request(`$JS.API.${operation}`, JSON.stringify(payload), { timeout: 5_000 });
  const answer = m.json<{ error?: unknown }>();
  if (answer.error !== undefined) throw new Error(JSON.stringify(answer.error));
  return answer;
};

export const createStream = (l: Link, name: string, o: Record<string, unknown> = {}) =>
  apiCall(l, `STREAM.CREATE.${name}`, {
    name,
    retention: 'limits',
    storage: 'file',
    num_replicas: 1,
    allow_direct: true,
    ...o,
  });

export const createBucket = (l: Link, bucket: string, o: Record<string, unknown> = {}) =>
  createStream(l, `KV_${bucket}`, {
    subjects: [`$KV.${bucket}.>`],
    max_msgs_per_subject: 1,
    discard: 'new',
    allow_rollup_hdrs: true,
    allow_msg_ttl: true,
    ...o,
  });
