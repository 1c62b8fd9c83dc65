import {
  type DoubtReason,
  type HostProbe,
  type LeaseNotice,
  LeaseRuntime,
  type LeaseSettings,
} from '@plane3/lease';
import { NatsFence, NatsLeaseRow, systemClock, systemTimers } from '@plane3/lease/nats';
import { Bucket, JetStreamApi, type Link, openLink, Publisher } from '@plane3/link';
import { done, HEADER, type Outcome } from '@plane3/protocol';

const NS_PER_MS = 1e6;

export const connect = (url: string, name = 'test'): Promise<Link> =>
  openLink({ name, servers: [url], transport: { kind: 'plain' } });

export function need<T, R extends string>(o: Outcome<T, R>): T {
  if (o.kind !== 'done') throw new Error(JSON.stringify(o));
  return o.value;
}

export async function makeBucket(
  link: Link,
  bucket: string,
  ttlMs: number,
  more: Record<string, unknown> = {},
  verb: 'CREATE' | 'UPDATE' = 'CREATE',
): Promise<void> {
  const config = {
    name: `KV_${bucket}`,
    subjects: [`$KV.${bucket}.>`],
    retention: 'limits',
    storage: 'file',
    discard: 'new',
    num_replicas: 1,
    max_age: ttlMs * NS_PER_MS,
    max_msgs_per_subject: 1,
    deny_delete: true,
    ...(ttlMs > 0 ? { duplicate_window: Math.min(ttlMs, 120_000) * NS_PER_MS } : {}),
    ...more,
  };
  need(await new JetStreamApi(link).call(`STREAM.${verb}.KV_${bucket}`, config));
}

export async function makeStream(
  link: Link,
  name: string,
  subject: string,
  more: Record<string, unknown> = {},
): Promise<void> {
  const config = { name, subjects: [subject], retention: 'limits', storage: 'file', ...more };
  need(await new JetStreamApi(link).call(`STREAM.CREATE.${name}`, config));
}

/** A space's lease bucket and fenced streams, and daemons on connections of their own. */
export class BrokerRig {
  readonly url: string;
  readonly admin: Link;
  readonly space: string;
  readonly #daemons: BrokerDaemon[] = [];

  constructor(url: string, admin: Link, space: string) {
    this.url = url;
    this.admin = admin;
    this.space = space;
  }

  static async make(url: string, space: string, ttlMs: number): Promise<BrokerRig> {
    const admin = await connect(url, 'admin');
    await makeBucket(admin, `lease_${space}`, ttlMs);
    await makeStream(admin, `INBOX_${space}`, `${space}.dinbox.>`, { allow_msg_ttl: true });
    await makeStream(admin, `DLV_${space}`, `${space}.dlv.>`, { allow_msg_ttl: true });
    return new BrokerRig(url, admin, space);
  }

  get bucket(): Bucket {
    return new Bucket(this.admin, undefined, `lease_${this.space}`);
  }

  async row(): Promise<Record<string, unknown> | undefined> {
    const entry = need(await this.bucket.get('lease.0'));
    return entry === undefined
      ? undefined
      : (JSON.parse(new TextDecoder().decode(entry.value)) as Record<string, unknown>);
  }

  async replaceRow(incarnation: string): Promise<void> {
    const host = { boot: 'elsewhere', pid: 1, start: '1' };
    const row = { holder: 'local.delivery', incarnation, since: 1, ready: true, host };
    need(await this.bucket.put('lease.0', new TextEncoder().encode(JSON.stringify(row))));
  }

  async daemon(
    incarnation: string,
    o: { url?: string; hostProbe?: HostProbe; settings?: Partial<LeaseSettings> } = {},
  ): Promise<BrokerDaemon> {
    const link = await connect(o.url ?? this.url, incarnation);
    const d = new BrokerDaemon(this, link, incarnation, o.hostProbe ?? knowsNothing, o.settings);
    this.#daemons.push(d);
    return d;
  }

  async close(): Promise<void> {
    for (const d of this.#daemons) await d.close();
    await this.admin.close();
  }
}

const knowsNothing: HostProbe = {
  self: () => ({ boot: 'test', pid: process.pid, start: '1' }),
  judge: async () => 'unknown',
};

export class BrokerDaemon {
  readonly incarnation: string;
  readonly link: Link;
  readonly lease: LeaseRuntime;
  readonly notices: LeaseNotice[] = [];
  readonly quiesced: { readonly reason: DoubtReason; readonly atMs: number }[] = [];
  readonly #publisher: Publisher;
  readonly #space: string;

  constructor(
    rig: BrokerRig,
    link: Link,
    incarnation: string,
    hostProbe: HostProbe,
    settings: Partial<LeaseSettings> = {},
  ) {
    this.incarnation = incarnation;
    this.link = link;
    this.#space = rig.space;
    this.#publisher = new Publisher(link);
    const fence = (stream: string, subject: string): NatsFence =>
      new NatsFence({ link, stream, subject });
    this.lease = new LeaseRuntime(
      {
        row: new NatsLeaseRow({ link, bucket: `lease_${rig.space}`, shard: 0 }),
        fences: {
          inbox: fence(`INBOX_${rig.space}`, `${rig.space}.dinbox._fence.0`),
          dlv: fence(`DLV_${rig.space}`, `${rig.space}.dlv._fence.0`),
        },
        hostProbe,
        host: {
          arm: () => {},
          quiesce: async (reason) => {
            this.quiesced.push({ reason, atMs: performance.now() });
          },
        },
        clock: systemClock,
        timers: systemTimers,
      },
      { holder: 'local.delivery', incarnation, ...settings },
    );
    this.lease.on((n) => this.notices.push(n));
  }

  /** A copy as fan-out writes it: it names the fence. */
  async store(fenceSeq: number): Promise<Outcome<number>> {
    const o = await this.#publisher.publish(
      `${this.#space}.dinbox.local.bob.u1`,
      new TextEncoder().encode(this.incarnation),
      [
        [HEADER.expectSubjectSeq, String(fenceSeq)],
        [HEADER.expectSubject, `${this.#space}.dinbox._fence.0`],
      ],
    );
    return o.kind === 'done' ? done(o.value.seq) : o;
  }

  /** As a SIGKILL looks to the broker: the connection is gone and nothing was given back. */
  async die(): Promise<void> {
    await this.link.nc.close();
  }

  async close(): Promise<void> {
    await this.lease.release();
    this.#publisher.close();
    await this.link.close();
  }
}
