import {
  type ApiRefusal,
  Bucket,
  BucketView,
  JetStreamApi,
  type NamedConsumerConfig,
  Publisher,
  type PublishRefusal,
} from '@plane3/link';
import {
  directDurable,
  done,
  handOverDurable,
  handOverSubject,
  historyDurable,
  type Lifecycle,
  lifecycleKey,
  type Outcome,
  type Principal,
  parseLifecycle,
  parseRecord,
  principalId,
  refused,
  samePrincipal,
} from '@plane3/protocol';
import {
  type AgentRequest,
  type AgentRow,
  agentLifetimeMs,
  agentRowSchema,
  changedRow,
  checkedRequest,
  type DurableConfig,
  directDurableConfig,
  firstRow,
  handOverDurableConfig,
  retiredRow,
  roleDurableConfig,
  sameRights,
} from '../agents.ts';
import { type Minted, mint, newUid, newUserKey, type UserKey } from '../mint.ts';
import { pushAccount } from './claims.ts';
import type { AdminLinks } from './links.ts';

export interface Agent {
  readonly lifecycle: Lifecycle;
  readonly row: AgentRow;
  /** Revision of the row in the rights bucket. */
  readonly revision: number;
}

export interface IssuedAgent extends Agent {
  /** The fresh credential: the caller writes it to its file. */
  readonly minted: Minted;
}

export type AgentRefusal =
  | ApiRefusal
  | PublishRefusal
  /** A living agent of that name has other rights. */
  | 'already-exists'
  | 'unknown-agent';

export interface AgentSettings {
  readonly lifetimeMs?: number;
}

const encoder = new TextEncoder();

/**
 * Agents of a space (design of narrowing and retirement: the row first, everything else after).
 * Every step may be repeated after a crash; each answers what the broker proved.
 */
export class Agents {
  readonly #links: AdminLinks;
  readonly #lifetimeMs: number;
  #publisher: Publisher | undefined;

  constructor(links: AdminLinks, settings: AgentSettings = {}) {
    this.#links = links;
    this.#lifetimeMs = agentLifetimeMs(settings.lifetimeMs);
  }

  /**
   * A principal with a lifecycle: its row, its durables, and only then its credential. Repeated
   * with the same rights it continues that lifecycle with one more credential.
   * @throws Plane3Error `settings-invalid` before anything is written
   */
  async add(asked: AgentRequest): Promise<Outcome<IssuedAgent, AgentRefusal>> {
    const request = checkedRequest(asked);
    const known = await this.find(request);
    if (known.kind !== 'done') return known;
    if (known.value !== undefined) {
      if (!sameRights(known.value.row, request))
        return refused('already-exists', principalId(request));
      return this.#reissue(known.value, {}, newUserKey());
    }
    const lifecycle = { owner: request.owner, actor: request.actor, uid: newUid() };
    const key = newUserKey();
    const expiresAtMs = Date.now() + this.#lifetimeMs;
    const row = firstRow(request, { publicKey: key.publicKey, expiresAtMs }, Date.now());
    const written = await this.#write(lifecycle, row, 0);
    if (written.kind !== 'done') return written;
    return this.#equip({ lifecycle, row, revision: written.value }, key);
  }

  /**
   * Changes the rights: row, hand-overs taken back, fresh credential, old keys revoked (which ends
   * their connections), and the history consumer that was made with them. The answered revision is
   * what the daemon must have settled.
   */
  async set(
    who: Principal,
    change: { readonly read?: readonly string[]; readonly write?: readonly string[] },
  ): Promise<Outcome<IssuedAgent, AgentRefusal>> {
    const known = await this.#living(who);
    if (known.kind !== 'done') return known;
    const { row } = known.value;
    const { read, write } = checkedRequest({
      ...who,
      read: change.read ?? row.issuedAllowSubscribe,
      write: change.write ?? row.allowPublish,
    });
    const key = newUserKey();
    const issued = await this.#reissue(known.value, { read, write }, key);
    if (issued.kind !== 'done') return issued;
    const older = issued.value.row.keys.filter((k) => k.key !== key.publicKey);
    const revoked = await this.#revoke(older);
    if (revoked.kind !== 'done') return revoked;
    const ended = await this.#endHistory(known.value.lifecycle);
    return ended.kind === 'done' ? issued : ended;
  }

  /**
   * A fresh credential of the same lifecycle and rights. With `userKey`, that of the credential it
   * follows (`userKeyOf`), a running client takes it over at its next connect. The older one stays
   * valid until its own end.
   */
  async renew(
    who: Principal,
    o: { readonly userKey?: UserKey } = {},
  ): Promise<Outcome<IssuedAgent, AgentRefusal>> {
    const known = await this.#living(who);
    if (known.kind !== 'done') return known;
    return this.#reissue(known.value, {}, o.userKey ?? newUserKey());
  }

  /**
   * Retires every lifecycle of the principal that is not retired yet, and finishes the retirement
   * of those that are. Answers them all; none is no refusal.
   */
  async retire(who: Principal): Promise<Outcome<Agent[], AgentRefusal>> {
    const all = await this.list();
    if (all.kind !== 'done') return all;
    const own = all.value.filter((a) => samePrincipal(a.lifecycle, who));
    const retired: Agent[] = [];
    for (const agent of own) {
      const gone = await this.#retireOne(agent);
      if (gone.kind !== 'done') return gone;
      retired.push(gone.value);
    }
    return done(retired);
  }

  /** All lifecycles, retired ones included, by principal and then by time of minting. */
  async list(): Promise<Outcome<Agent[], AgentRefusal>> {
    const link = await this.#links.get('operator-vault');
    const view = new BucketView<AgentRow>(link, this.#links.names.buckets.acl, {
      parse: (bytes) => parseRecord(agentRowSchema, bytes),
    });
    const started = await view.start();
    if (started.kind !== 'done') return started;
    const agents: Agent[] = [];
    for (const [key, { value, revision }] of view.entries()) {
      const lifecycle = parseLifecycle(key);
      if (lifecycle !== undefined) agents.push({ lifecycle, row: value, revision });
    }
    await view.stop();
    return done(agents.sort(byPrincipalAndAge));
  }

  /** The living agent of that principal, the newest if a crash has left two. */
  async find(who: Principal): Promise<Outcome<Agent | undefined, AgentRefusal>> {
    const all = await this.list();
    if (all.kind !== 'done') return all;
    const living = all.value.filter(
      (a) => samePrincipal(a.lifecycle, who) && a.row.retiredAt === undefined,
    );
    return done(living.at(-1));
  }

  /** Ends what this object opened on its links; the links stay their owner's. */
  close(): void {
    this.#publisher?.close();
  }

  async #living(who: Principal): Promise<Outcome<Agent, AgentRefusal>> {
    const known = await this.find(who);
    if (known.kind !== 'done') return known;
    return known.value === undefined
      ? refused('unknown-agent', principalId(who))
      : done(known.value);
  }

  /** Row, hand-overs taken back where reading changes, credential. */
  async #reissue(
    agent: Agent,
    change: { readonly read?: readonly string[]; readonly write?: readonly string[] },
    key: UserKey,
  ): Promise<Outcome<IssuedAgent, AgentRefusal>> {
    const nowMs = Date.now();
    const expiresAtMs = nowMs + this.#lifetimeMs;
    const revoked = this.#links.trust.revocations('space');
    const known = { ...agent.row, keys: agent.row.keys.filter((k) => !(k.key in revoked)) };
    const row = changedRow(known, change, { publicKey: key.publicKey, expiresAtMs }, nowMs);
    const written = await this.#write(agent.lifecycle, row, agent.revision);
    if (written.kind !== 'done') return written;
    if (change.read !== undefined) {
      const purged = await this.#takeBack(agent.lifecycle, 'operator');
      if (purged.kind !== 'done') return purged;
    }
    return this.#equip({ ...agent, row, revision: written.value }, key);
  }

  /** Durables, then the credential. */
  async #equip(agent: Agent, userKey: UserKey): Promise<Outcome<IssuedAgent, AgentRefusal>> {
    const { lifecycle, row } = agent;
    const durables = await this.#makeDurables(lifecycle, row.role);
    if (durables.kind !== 'done') return durables;
    const { trust, names } = this.#links;
    const minted = await mint({
      trust,
      names,
      profile: 'agent',
      lifecycle,
      userKey,
      lifetimeMs: this.#lifetimeMs,
      args: {
        allowSubscribe: row.issuedAllowSubscribe,
        allowPublish: row.allowPublish,
        ...(row.role === undefined ? {} : { role: row.role }),
      },
    });
    return done({ ...agent, minted });
  }

  async #makeDurables(
    member: Lifecycle,
    role: string | undefined,
  ): Promise<Outcome<void, AgentRefusal>> {
    const { names } = this.#links;
    const api = new JetStreamApi(await this.#links.get('provisioner'));
    const dlv = await ensureDurable(api, names.streams.dlv, handOverDurableConfig(names, member));
    if (dlv.kind !== 'done') return dlv;
    const frontier = await api.streamInfo(names.streams.dm);
    if (frontier.kind !== 'done') return frontier;
    const { last_seq: lastSeq } = frontier.value.state;
    const dmConfig = directDurableConfig(names, member, lastSeq);
    const dm = await ensureDurable(api, names.streams.dm, dmConfig);
    if (dm.kind !== 'done' || role === undefined) return dm;
    return ensureDurable(api, names.streams.task, roleDurableConfig(names, role));
  }

  async #retireOne(agent: Agent): Promise<Outcome<Agent, AgentRefusal>> {
    const { lifecycle } = agent;
    let retired = agent;
    if (agent.row.retiredAt === undefined) {
      const row = retiredRow(agent.row, Date.now());
      const written = await this.#write(lifecycle, row, agent.revision);
      if (written.kind !== 'done') return written;
      retired = { lifecycle, row, revision: written.value };
    }
    const purged = await this.#takeBack(lifecycle, 'deprovisioner');
    if (purged.kind !== 'done') return purged;
    const { streams } = this.#links.names;
    const api = new JetStreamApi(await this.#links.get('deprovisioner'));
    for (const [stream, name] of [
      [streams.dlv, handOverDurable(lifecycle)],
      [streams.dm, directDurable(lifecycle)],
    ] as const) {
      const deleted = await api.consumerDelete(stream, name);
      if (deleted.kind !== 'done') return deleted;
    }
    const revoked = await this.#revoke(retired.row.keys);
    if (revoked.kind !== 'done') return revoked;
    const ended = await this.#endHistory(lifecycle);
    return ended.kind === 'done' ? done(retired) : ended;
  }

  /**
   * Ends the consumer by which an agent reads history: its filter is judged when it is made and
   * never again, so it would go on reading, or pushing to whom it likes, what its maker may read
   * no more. Only after the keys are revoked, or it could be made again.
   */
  async #endHistory(member: Lifecycle): Promise<Outcome<void, AgentRefusal>> {
    const api = new JetStreamApi(await this.#links.get('deprovisioner'));
    const o = await api.consumerDelete(this.#links.names.streams.chat, historyDurable(member));
    return o.kind === 'done' ? done(undefined) : o;
  }

  /** Takes the unconfirmed hand-overs of a member back; its entries stay in the member store. */
  async #takeBack(
    member: Lifecycle,
    profile: 'operator' | 'deprovisioner',
  ): Promise<Outcome<void, AgentRefusal>> {
    const { names } = this.#links;
    const api = new JetStreamApi(await this.#links.get(profile));
    const subject = handOverSubject(names.prefix, member);
    const purged = await api.purge(names.streams.dlv, { subject });
    return purged.kind === 'done' ? done(undefined) : purged;
  }

  async #revoke(keys: AgentRow['keys']): Promise<Outcome<void, AgentRefusal>> {
    const { trust } = this.#links;
    const living = keys.filter((k) => k.expiresAt > Date.now());
    // Pushed even if none is new: an earlier push may have been cut off after it was recorded.
    for (const k of living) trust.revoke('space', k.key, k.expiresAt);
    return pushAccount(await this.#links.get('claims-pusher'), trust, 'space');
  }

  async #write(
    lifecycle: Lifecycle,
    row: AgentRow,
    expected: number,
  ): Promise<Outcome<number, AgentRefusal>> {
    const link = await this.#links.get('operator-vault');
    this.#publisher ??= new Publisher(link);
    const acl = new Bucket(link, this.#publisher, this.#links.names.buckets.acl);
    const put = await acl.put(
      lifecycleKey(lifecycle),
      encoder.encode(JSON.stringify(row)),
      expected,
    );
    // Somebody changed the row since it was read: the caller reads and decides anew.
    if (put.kind === 'refused' && put.reason === 'wrong-sequence')
      return refused('conflict', put.detail);
    return put;
  }
}

/** One that exists with other settings is left as it is: its position must survive. */
async function ensureDurable(
  api: JetStreamApi,
  stream: string,
  config: DurableConfig,
): Promise<Outcome<void, AgentRefusal>> {
  const known = await api.consumerInfo(stream, config.durable_name);
  if (known.kind === 'done') return done(undefined);
  if (known.kind === 'unknown' || known.reason !== 'not-found') return known;
  const made = await api.consumerCreate(stream, config as NamedConsumerConfig);
  return made.kind === 'done' ? done(undefined) : made;
}

const byPrincipalAndAge = (a: Agent, b: Agent): number =>
  principalId(a.lifecycle).localeCompare(principalId(b.lifecycle)) ||
  a.row.mintedAt - b.row.mintedAt;
