import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Denied, type Link, openLink } from '@plane3/link';
import { type Lifecycle, spaceNames } from '@plane3/protocol';
import {
  type Minted,
  mint,
  type ProfileArguments,
  type ProfileName,
  type SpacePaths,
  type StreamSpec,
  serverConfig,
  spacePaths,
  streamSpecs,
  type Trust,
  TrustStore,
} from '@plane3/space';
import { AdminLinks, provisionStreams, requireWhole } from '@plane3/space/nats';
import { type NatsProc, startNats } from '@plane3/testkit';

export const PLAIN = { kind: 'plain' } as const;

/** A broker under the configuration and trust chain of a real space, in a root of its own. */
export class SpaceBroker {
  readonly root: string;
  readonly paths: SpacePaths;
  readonly names: ReturnType<typeof spaceNames>;
  readonly specs: StreamSpec[];
  readonly trust: Trust;
  readonly nats: NatsProc;
  readonly links: AdminLinks;
  readonly #opened: Link[] = [];

  private constructor(space: string, root: string, trust: Trust, nats: NatsProc) {
    this.root = root;
    this.trust = trust;
    this.nats = nats;
    this.paths = spacePaths(root, space);
    this.names = spaceNames(space);
    this.specs = streamSpecs(this.names, { leaseTtlMs: 2_000 });
    this.links = this.adminLinks();
  }

  static async start(space = 'main'): Promise<SpaceBroker> {
    const root = newRoot();
    const trust = await new TrustStore(root).create(space);
    const text = await serverConfig(spacePaths(root, space), trust, { port: -1 });
    const nats = await startNats({ config: text, jetstream: false });
    return new SpaceBroker(space, root, trust, nats);
  }

  /** The same with every stream and bucket in place. */
  static async provisioned(space = 'main'): Promise<SpaceBroker> {
    const broker = await SpaceBroker.start(space);
    for (const account of ['space', 'vault'] as const)
      requireWhole(await broker.provision(account));
    return broker;
  }

  async provision(account: 'space' | 'vault') {
    const link = await this.links.get(account === 'space' ? 'provisioner' : 'provisioner-vault');
    const own = this.specs.filter((s) => s.account === account);
    const o = await provisionStreams(link, own);
    if (o.kind !== 'done') throw new Error(`not provisioned: ${JSON.stringify(o)}`);
    return o.value;
  }

  adminLinks(): AdminLinks {
    const { trust, names } = this;
    return new AdminLinks({ trust, names, servers: [this.nats.url], transport: PLAIN });
  }

  async mint<P extends ProfileName>(
    profile: P,
    args: ProfileArguments[P],
    lifecycle?: Lifecycle,
  ): Promise<Minted> {
    const { trust, names } = this;
    return mint({ trust, names, profile, args, ...(lifecycle === undefined ? {} : { lifecycle }) });
  }

  async connect(minted: Minted): Promise<Link> {
    const bytes = new TextEncoder().encode(minted.creds);
    const link = await openLink({
      name: minted.profile,
      servers: [this.nats.url],
      transport: PLAIN,
      credentials: () => bytes,
      connectTimeoutMs: 2_000,
    });
    this.#opened.push(link);
    return link;
  }

  async stop(): Promise<void> {
    await this.links.close();
    await Promise.all(this.#opened.map((l) => l.close()));
    await this.nats.stop();
    rmSync(this.root, { recursive: true, force: true });
  }
}

/** A folder that goes with the test run. */
export function newRoot(): string {
  const base = process.env['PLANE3_RUN_DIR'] ?? tmpdir();
  mkdirSync(base, { recursive: true });
  return mkdtempSync(join(base, 'space-'));
}

export const denialKey = (d: Denied): string =>
  `${d.operation === 'publish' ? 'pub' : 'sub'} ${d.subject}${d.queue === undefined ? '' : ` ${d.queue}`}`;
