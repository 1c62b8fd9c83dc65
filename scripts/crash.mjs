// Tries to break the promise: a mesh under load, with processes killed and stalled at random
// moments; then every stored post is compared with what every member surfaced.
//   node scripts/crash.mjs --kills 20 [--seed N] [--rate N] [--faults a,b] [--json FILE] [--keep]
// Exit 1: something owed was lost, something was released that must not be, an entry was left in
// the store although all was confirmed, or one fault repeated more than a member's window.
// Build first (scripts/bootstrap.mjs). Ten faults take about a minute and a half.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { Caller } from '../packages/endpoint/dist/nats/index.js';
import { JetStreamApi } from '../packages/link/dist/index.js';
import { parseChat, principalId } from '../packages/protocol/dist/index.js';
import { AdminLinks, Agents, setChannel } from '../packages/space/dist/nats/index.js';
import { buildBundles } from './bundles.mjs';
import { FAULTS, HITS } from './crash/faults.mjs';
import { duplicatesPerKill, judge, Ledger } from './crash/ledger.mjs';
import { Mesh, usage } from './crash/mesh.mjs';
import { ClientPerson, ForeignPerson, markerOf, Poster } from './crash/people.mjs';

const DURABLE = ['alpha', 'beta', 'gamma.deep'];
const LIVE = 'lobby';
const NARROWED = 'beta';
const ROAMING = ['bob', 'gus', 'old'];
const DRAIN_MAX_MS = 100_000;
const STORE_READS_AT_ONCE = 64;
/** Unconfirmed copies of a member at most: what a fault may repeat. */
const WINDOW = 64;

const { values: flags } = parseArgs({
  options: {
    kills: { type: 'string', default: '20' },
    seed: { type: 'string', default: String(Date.now() % 100_000) },
    faults: { type: 'string', default: Object.keys(FAULTS).join(',') },
    rate: { type: 'string', default: '8' },
    json: { type: 'string' },
    keep: { type: 'boolean', default: false },
  },
});

/** Mulberry32: the same seed makes the same choices, not the same interleaving. */
function seeded(seed) {
  let a = seed >>> 0;
  return () => {
    a = (a + 0x6d2b79f5) >>> 0;
    let t = Math.imul(a ^ (a >>> 15), 1 | a);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

const say = (line) => process.stderr.write(`${(performance.now() / 1000).toFixed(1)} ${line}\n`);
const must = (what, o) => {
  if (o.kind === 'done') return o.value;
  throw new Error(`${what}: ${o.kind === 'refused' ? `${o.reason} ${o.detail}` : o.cause}`);
};

/** Repeats an administrative act on fresh connections until it is answered. */
async function insist(world, what, act) {
  for (let n = 0; ; n++) {
    const links = new AdminLinks(world.mesh.adminOptions());
    try {
      return await act(links);
    } catch (e) {
      if (n > 60) throw e;
      world.adminRetries.push(`${what}: ${e.message}`);
      await sleep(300);
    } finally {
      await links.close();
    }
  }
}

async function populate(world) {
  const agents = await insist(world, 'populate', async (links) => {
    must('channel', await setChannel(links, LIVE, { deliveryClass: 'live' }));
    const adder = new Agents(links);
    const made = {};
    const read = [...DURABLE, LIVE];
    for (const actor of ['ann', 'bob', 'cyd', 'dan', 'fox', 'gus', 'old', 'pat', 'sue'])
      made[actor] = must(
        actor,
        await adder.add({ owner: 'local', actor, read, write: [...DURABLE, LIVE] }),
      );
    adder.close();
    return made;
  });
  const people = [
    ...['ann', 'bob', 'cyd'].map((a) => new ClientPerson(world, agents[a], DURABLE)),
    new ClientPerson(world, agents.dan, ['alpha']),
    ...['old', 'fox', 'gus'].map((a) => new ForeignPerson(world, agents[a], DURABLE)),
  ];
  const posters = ['pat', 'sue'].map(
    (a) => new Poster(world, agents[a], [...DURABLE, ...DURABLE, LIVE], Number(flags.rate)),
  );
  // The first client posts too: nothing of its own may come back to it.
  posters.push(new Poster(world, agents.ann, DURABLE, Number(flags.rate) / 4));
  return { people, posters };
}

const settle = async (world, revision) => {
  for (let n = 0; n < 60; n++) {
    try {
      const { link, lifecycle } = await world.mesh.linkAs('operator');
      try {
        const { prefix, buckets } = world.mesh.names;
        const caller = must('caller', await Caller.open({ link, prefix, caller: lifecycle }));
        const args = { bucket: buckets.acl, revision };
        const answer = await caller.call('settled', args, { deadlineMs: 4_000 });
        caller.close();
        if (answer.ok) return;
        world.adminRetries.push(`settled: ${answer.code}: ${answer.message}`);
      } finally {
        await link.close();
      }
    } catch (e) {
      world.adminRetries.push(`settled: ${e.message}`);
    }
    await sleep(300);
  }
  throw new Error(`not settled: ${revision}`);
};

/** Takes a right away, holds that for a while, gives it back; until the end. */
async function narrow(world, person) {
  const set = async (read) => {
    const issued = await insist(world, 'set', async (links) => {
      const agents = new Agents(links);
      const o = must('set', await agents.set(person.lifecycle, { read }));
      agents.close();
      return o;
    });
    person.renew(issued.minted);
    await settle(world, issued.revision);
  };
  const all = [...DURABLE, LIVE];
  while (!world.stopping) {
    await sleep(2_000 + world.random() * 4_000);
    if (world.stopping) return;
    await set(all.filter((c) => c !== NARROWED));
    const narrowing = {
      member: person.member,
      channels: [NARROWED],
      settledAt: performance.now(),
      widenedAt: undefined,
    };
    world.ledger.narrowings.push(narrowing);
    await sleep(1_500 + world.random() * 3_000);
    narrowing.widenedAt = performance.now();
    await set(all);
  }
}

/** One member goes for good in the middle of it: nothing of it may stay, nothing may reach it. */
async function retire(world, person) {
  await insist(world, 'retire', async (links) => {
    const agents = new Agents(links);
    const gone = must('retire', await agents.retire(person.lifecycle));
    agents.close();
    await settle(world, Math.max(...gone.map((a) => a.revision)));
  });
  person.retired = true;
  world.ledger.narrowings.push({
    member: person.member,
    channels: [...DURABLE, LIVE],
    settledAt: performance.now(),
    widenedAt: undefined,
  });
}

async function breakThings(world, kills) {
  const kinds = flags.faults.split(',');
  for (let n = 0; n < kills; n++) {
    await sleep(500 + world.random() * 2_500);
    const kind = kinds[Math.floor(world.random() * kinds.length)];
    const kill = { kind, at: performance.now(), tookMs: 0, hits: HITS[kind] ?? 1 };
    world.ledger.kills.push(kill);
    await FAULTS[kind](world.mesh, world.random);
    if (n === Math.floor(kills / 2)) world.retiring = retire(world, world.old);
    kill.tookMs = Math.round(performance.now() - kill.at);
    const use = usage(world.mesh.daemonPid());
    say(`fault ${n + 1}/${kills} ${kind} ${kill.tookMs} ms, daemon ${use?.rssMib} MiB`);
  }
}

/** Every post that CHAT keeps. */
async function readChat(world) {
  const { link } = await world.mesh.linkAs('delivery');
  const api = new JetStreamApi(link);
  const { prefix, streams } = world.mesh.names;
  const { state } = must('chat', await api.streamInfo(streams.chat));
  const posts = [];
  for (let from = state.first_seq; from <= state.last_seq; from += STORE_READS_AT_ONCE) {
    const seqs = Array.from({ length: STORE_READS_AT_ONCE }, (_, n) => from + n);
    const got = await Promise.all(
      seqs.filter((s) => s <= state.last_seq).map((s) => api.atSeq(streams.chat, s)),
    );
    for (const g of got) {
      const m = must('post', g);
      if (m === undefined) continue;
      const message = JSON.parse(new TextDecoder().decode(m.body));
      const { from: sender, channel } = parseChat(prefix, m.subject);
      const { id, mentions = [] } = message;
      const marker = markerOf(message);
      posts.push({ seq: m.seq, from: principalId(sender), channel, marker, id, mentions });
    }
  }
  await link.close();
  return posts;
}

/** What the store and the hand-over stream still hold, by member. */
async function leftBehind(world) {
  const { prefix, streams } = world.mesh.names;
  const vault = await world.mesh.linkAs('delivery-vault');
  const space = await world.mesh.linkAs('delivery');
  const count = async (link, stream, filter) => {
    const api = new JetStreamApi(link);
    const info = await api.streamInfo(stream, { subjectsFilter: filter });
    return must(stream, info).state.subjects ?? {};
  };
  const inbox = await count(vault.link, streams.inbox, `${prefix}.dinbox.*.*.*`);
  const dlv = await count(space.link, streams.dlv, `${prefix}.dlv.*.*.*`);
  const dead = await count(vault.link, streams.dead, '>');
  await vault.link.close();
  await space.link.close();
  return { inbox, dlv, dead };
}
const sum = (counts) => Object.values(counts).reduce((a, b) => a + b, 0);

async function drain(world, people) {
  const untilMs = performance.now() + DRAIN_MAX_MS;
  const sessions = people.map((p) => p.drain(untilMs));
  let empty = 0;
  while (performance.now() < untilMs && empty < 3) {
    await sleep(700);
    const left = await leftBehind(world).catch(() => undefined);
    empty = left !== undefined && sum(left.inbox) + sum(left.dlv) === 0 ? empty + 1 : 0;
  }
  world.drained = true;
  await Promise.all(sessions);
}

/** Lines at warning or above, by event; what a fault explains is for the reader to judge. */
function noise(lines) {
  const counts = {};
  for (const l of lines.filter((x) => x.level >= 40)) {
    const key = `${l.level} ${l.event ?? l.msg} ${l.code ?? l.reason ?? l.why ?? ''}`.slice(0, 140);
    counts[key] = (counts[key] ?? 0) + 1;
  }
  return counts;
}

async function main() {
  buildBundles();
  const random = seeded(Number(flags.seed));
  const root = mkdtempSync(path.join(os.tmpdir(), 'plane3-crash-'));
  const settings = {
    DELIVERYD_ACK_WAIT_MS: '6000',
    DELIVERYD_DETACH_GRACE_MS: '3000',
    DELIVERYD_MENTIONS_PER_MINUTE: '10000',
  };
  const mesh = new Mesh(root, { leaseTtlMs: 3_000, settings });
  const world = { mesh, random, ledger: new Ledger(), stopping: false, drained: false };
  Object.assign(world, { adminRetries: [], roaming: ROAMING, isLive: (c) => c === LIVE });
  say(`seed ${flags.seed}, root ${root}`);
  // Nothing is left behind by a run that is broken off.
  for (const name of ['SIGINT', 'SIGTERM'])
    process.once(name, () => void mesh.down().finally(() => process.exit(130)));
  try {
    await mesh.up();
    const { people, posters } = await populate(world);
    const names = people.map((p) => p.name);
    world.old = people.find((p) => p.name === 'old');
    const work = [...people.map((p) => p.run()), ...posters.map((p) => p.run(names))];
    work.push(narrow(world, people.at(-1)));
    await breakThings(world, Number(flags.kills));
    await sleep(1_000);
    world.stopping = true;
    await Promise.all([...work, world.retiring]);
    await mesh.up();
    say('draining');
    await drain(
      world,
      people.filter((p) => p.retired !== true),
    );
    await report(world, people, posters);
  } finally {
    world.stopping = world.drained = true;
    await mesh.down();
    if (!flags.keep) rmSync(root, { recursive: true, force: true });
  }
}

async function report(world, people, posters) {
  const { ledger, mesh } = world;
  const chat = await readChat(world);
  const left = await leftBehind(world);
  const members = people.map(({ member, principal, name }) => ({
    member,
    principal,
    name,
    mentionsJudged: true,
  }));
  const owing = members.filter((m) => !world.old.retired || m.member !== world.old.member);
  const verdict = judge(ledger, chat, owing, world.isLive);
  const before = usage(mesh.daemonPid());
  await sleep(2_000);
  const after = usage(mesh.daemonPid());
  const result = {
    seed: Number(flags.seed),
    kills: ledger.kills.length,
    posts: chat.length,
    copies: verdict.owed,
    receipts: ledger.receipts.length,
    lost: verdict.lost.length,
    leaked: verdict.leaked.length,
    duplicates: verdict.duplicates.length,
    duplicates_max_per_kill: duplicatesPerKill(verdict.duplicates, ledger.kills),
    store_left: sum(left.inbox),
    hand_over_left: sum(left.dlv),
    dead: left.dead,
    broker_lost: verdict.brokerLost.length,
    narrowings: ledger.narrowings.length,
    leaves: [...ledger.intervals.values()].flat().filter((i) => i.leftAt !== undefined).length,
    sessions: people.reduce((a, p) => a + p.sessions, 0),
    daemon_rss_mib: after?.rssMib,
    daemon_idle_cpu_ms_in_2s: before && after ? after.cpuMs - before.cpuMs : undefined,
  };
  const details = {
    lost: verdict.lost.slice(0, 40),
    leaked: verdict.leaked.slice(0, 40),
    duplicates: verdict.duplicates.slice(0, 1_000),
    broker_lost: verdict.brokerLost.slice(0, 10),
    left,
    faults: ledger.kills,
    up_failures: mesh.upFailures,
    admin: tally(world.adminRetries),
    people: Object.fromEntries(people.map((p) => [p.name, Object.fromEntries(p.errors)])),
    posters: posters.map((p) => Object.fromEntries(p.failed)),
    log: noise(mesh.logLines()),
    log_lines: mesh.logLines().length,
    intervals: Object.fromEntries(ledger.intervals),
  };
  if (flags.json !== undefined) writeFileSync(flags.json, JSON.stringify({ ...result, details }));
  if (flags.json !== undefined) process.stdout.write(`${JSON.stringify(result, null, 1)}\n`);
  else process.stdout.write(`${JSON.stringify({ ...result, details }, null, 1)}\n`);
  const bad = result.lost + result.leaked + result.store_left;
  process.exitCode = bad === 0 && result.duplicates_max_per_kill <= WINDOW ? 0 : 1;
}

const tally = (list) => {
  const counts = {};
  for (const x of list) counts[x] = (counts[x] ?? 0) + 1;
  return counts;
};

await main();
// A connection that a fault left behind would reconnect for ever.
process.exit();
