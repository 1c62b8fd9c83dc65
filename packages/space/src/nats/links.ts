import { type Link, openLink, type Transport } from '@plane3/link';
import type { SpaceNames } from '@plane3/protocol';
import type { ProfileArguments, ProfileName } from '../grants.ts';
import { mint } from '../mint.ts';
import type { Trust } from '../trust.ts';

/** Profiles that need nothing but a lifecycle. */
export type PlainProfile = {
  [P in ProfileName]: object extends ProfileArguments[P] ? P : never;
}[ProfileName];

export interface AdminOptions {
  readonly trust: Trust;
  readonly names: SpaceNames;
  readonly servers: readonly string[];
  readonly transport: Transport;
}

/**
 * Connections for one administrative act, each under a credential of the one profile that the
 * step needs, minted on the spot and never written to a file. Opened on first use, closed after the
 * act: some of these credentials end after five minutes.
 */
export class AdminLinks {
  readonly trust: Trust;
  readonly names: SpaceNames;
  readonly #options: AdminOptions;
  readonly #open = new Map<PlainProfile, Promise<Link>>();

  constructor(options: AdminOptions) {
    this.trust = options.trust;
    this.names = options.names;
    this.#options = options;
  }

  /** @throws Plane3Error `broker-unreachable`, `transport-refused` or `credential-refused` */
  get(profile: PlainProfile): Promise<Link> {
    const known = this.#open.get(profile);
    if (known !== undefined) return known;
    const link = this.#connect(profile);
    this.#open.set(profile, link);
    return link;
  }

  async close(): Promise<void> {
    const links = await Promise.allSettled(this.#open.values());
    this.#open.clear();
    await Promise.all(links.map((l) => (l.status === 'fulfilled' ? l.value.close() : undefined)));
  }

  async #connect(profile: PlainProfile): Promise<Link> {
    const { trust, names, servers, transport } = this.#options;
    const minted = await mint({ trust, names, profile, args: {} });
    const bytes = new TextEncoder().encode(minted.creds);
    return openLink({ name: `cotal ${profile}`, servers, transport, credentials: () => bytes });
  }
}
