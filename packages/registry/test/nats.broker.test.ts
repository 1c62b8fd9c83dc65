import { setTimeout as sleep } from 'node:timers/promises';
import { JetStreamApi, type Link, openLink, Publisher } from '@plane3/link';
import { bucketStream, bucketSubject, lifecycleKey, spaceNames } from '@plane3/protocol';
import { type MembershipStore, membershipKey } from '@plane3/registry';
import {
  type FrontierHarness,
  frontierContract,
  type StoreHarness,
  storeContract,
} from '@plane3/registry/contract';
import { NatsFrontier, NatsMembershipStore } from '@plane3/registry/nats';
import { eventually, type NatsProc, startNats } from '@plane3/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { alice, bob, codeOf, ok, Space, started } from './rig.ts';

let nats: NatsProc;
let link: Link;
let publisher: Publisher;
let api: JetStreamApi;
let spaces = 0;

beforeAll(async () => {
  nats = await startNats();
  link = await openLink({ name: 'test', servers: [nats.url], transport: { kind: 'plain' } });
  publisher = new Publisher(link);
  api = new JetStreamApi(link);
});

afterAll(async () => {
  publisher.close();
  await link.close();
  await nats.stop();
});

/** Stream configurations are no business of a domain package: here by the plain API. */
async function streamApi(verb: 'CREATE' | 'DELETE', name: string, config: object): Promise<void> {
  const answer = await link.nc.request(`$JS.API.STREAM.${verb}.${name}`, JSON.stringify(config));
  const parsed = answer.json() as { error?: { description: string } };
  if (parsed.error !== undefined) throw new Error(parsed.error.description);
}

const makeBucket = (bucket: string): Promise<void> =>
  streamApi('CREATE', bucketStream(bucket), {
    name: bucketStream(bucket),
    subjects: [`$KV.${bucket}.>`],
    max_msgs_per_subject: 1,
    allow_direct: true,
    allow_rollup_hdrs: true,
    deny_delete: true,
    storage: 'file',
  });

const drop = (stream: string): Promise<void> => streamApi('DELETE', stream, {});

const storeOn = (bucket: string): NatsMembershipStore =>
  new NatsMembershipStore({ link, publisher, bucket, checkEveryMs: 100, freshnessMs: 1_000 });

async function storeHarness(): Promise<StoreHarness & { readonly bucket: string }> {
  const bucket = spaceNames(`t${++spaces}`).buckets.members;
  await makeBucket(bucket);
  const stores: MembershipStore[] = [];
  const open = (): MembershipStore => {
    const store = storeOn(bucket);
    stores.push(store);
    return store;
  };
  return {
    bucket,
    store: open(),
    another: async () => open(),
    plant: async (key, bytes) => {
      await publisher.publish(bucketSubject(bucket, key), bytes, undefined);
    },
    recreate: async () => {
      await drop(bucketStream(bucket));
      await makeBucket(bucket);
    },
    end: async () => {
      for (const s of stores) await s.close();
    },
  };
}

async function frontierHarness(): Promise<FrontierHarness> {
  const names = spaceNames(`f${++spaces}`);
  const { chat } = names.streams;
  const make = (): Promise<void> =>
    streamApi('CREATE', chat, { name: chat, subjects: [`${names.prefix}.chat.>`] });
  await make();
  return {
    frontier: new NatsFrontier(link, chat),
    post: async () => {
      const subject = `${names.prefix}.chat.local.alice.team`;
      const o = await publisher.publish(subject, new Uint8Array(1), undefined);
      if (o.kind !== 'done') throw new Error(JSON.stringify(o));
      return o.value.seq;
    },
    pass: (ms) => sleep(ms),
    recreate: async () => {
      await drop(chat);
      await make();
    },
    end: async () => {},
  };
}

describe('members bucket', () => {
  for (const c of storeContract) it(c.name, () => c.run(storeHarness));

  it('S151 has one consumer for its view, and none when it is closed', async () => {
    const h = await storeHarness();
    await h.store.load({ changed: () => {}, recreated: () => {} });
    const consumers = async (): Promise<number> => {
      const info = await api.streamInfo(bucketStream(h.bucket));
      return info.kind === 'done' ? info.value.state.consumer_count : -1;
    };
    expect(await consumers()).toBe(1);
    await h.end();
    await expect.poll(consumers).toBe(0);
  });

  it('that is gone is no empty one: it is missing', async () => {
    const store = storeOn('cotal_members_never');
    const loaded = await store.load({ changed: () => {}, recreated: () => {} });
    expect(loaded).toMatchObject({ kind: 'refused', reason: 'missing' });
    await store.close();
  });

  it('that is deleted under it is not current any more, and closes nobody', async () => {
    const h = await storeHarness();
    const p = await started(new Space(), { store: () => h.store });
    ok(await p.registry.join({ lifecycle: alice, channel: 'team' }));
    expect(p.registry.isCurrent()).toBe(true);
    await drop(bucketStream(h.bucket));
    await expect.poll(() => p.registry.isCurrent(), { timeout: 5_000 }).toBe(false);
    expect(p.registry.list(alice)).toHaveLength(1);
    await p.registry.stop();
    await h.end();
  });
});

describe('channel stream', () => {
  for (const c of frontierContract) it(c.name, () => c.run(frontierHarness));
});

describe('registry on a broker', () => {
  it('a life of joins and leaves survives the process, row by row', async () => {
    const h = await storeHarness();
    const space = new Space();
    space.post('team.a');
    const first = await started(space, { store: () => h.store });
    const joined = ok(await first.registry.join({ lifecycle: alice, channel: 'team.a' }));
    ok(await first.registry.join({ lifecycle: bob, channel: 'team.a' }));
    ok(await first.registry.leave({ lifecycle: bob, channel: 'team.a' }));
    await first.registry.stop();

    const again = await h.another();
    const second = await started(space, { store: () => again });
    expect(ok(await second.registry.join({ lifecycle: alice, channel: 'team.a' }))).toEqual(joined);
    const rejoined = ok(await second.registry.join({ lifecycle: bob, channel: 'team.a' }));
    expect(rejoined.generation).toBeGreaterThan(joined.generation);
    ok(await second.registry.retire(alice));
    const back = ok(await second.registry.join({ lifecycle: alice, channel: 'team.a' }));
    expect(back.generation).toBeGreaterThan(rejoined.generation);
    await second.registry.stop();
    await h.end();
  });

  it('S143 two daemons that both think they serve never both change a row', async () => {
    const h = await storeHarness();
    const space = new Space();
    const a = await started(space, { store: () => h.store });
    const other = await h.another();
    const b = await started(space, { store: () => other });
    const request = { lifecycle: alice, channel: 'team' };
    const answers = await Promise.all([a, b].map((p) => p.registry.join(request)));
    const generations = new Set(answers.map((x) => ok(x).generation));
    expect(generations.size).toBe(1);
    await eventually(() =>
      [a, b].every((p) => {
        const row = p.registry.membershipOf(lifecycleKey(alice), 'team');
        return row?.state === 'active' && p.registry.status().working === 0;
      }),
    );
    for (const p of [a, b]) await p.registry.stop();
    await h.end();
  });

  it('S150 a killed broker costs no membership: rows come back, and the registry is current again', async () => {
    const own = await startNats();
    const ownLink = await openLink({
      name: 'own',
      servers: [own.url],
      transport: { kind: 'plain' },
    });
    const ownPublisher = new Publisher(ownLink);
    const bucket = spaceNames('kill').buckets.members;
    const config = {
      name: bucketStream(bucket),
      subjects: [`$KV.${bucket}.>`],
      max_msgs_per_subject: 1,
      allow_direct: true,
    };
    await ownLink.nc.request(`$JS.API.STREAM.CREATE.${config.name}`, JSON.stringify(config));
    const store = new NatsMembershipStore({
      link: ownLink,
      publisher: ownPublisher,
      bucket,
      checkEveryMs: 100,
      freshnessMs: 1_000,
    });
    const p = await started(new Space(), { store: () => store });
    try {
      const request = { lifecycle: alice, channel: 'team' };
      const joined = ok(await p.registry.join(request));
      await own.kill();
      const asked = p.registry.join({ lifecycle: bob, channel: 'team' });
      await expect.poll(() => p.timers.size, { timeout: 5_000 }).toBe(2);
      p.timers.run(5_000);
      expect(codeOf(await asked)).toMatch(/^unavailable /);
      await expect.poll(() => p.registry.isCurrent(), { timeout: 5_000 }).toBe(false);
      await own.restart();
      await expect.poll(() => p.registry.isCurrent(), { timeout: 15_000 }).toBe(true);
      expect(ok(await p.registry.join(request))).toEqual(joined);
      ok(await p.registry.join({ lifecycle: bob, channel: 'team' }));
      const read = await store.read(membershipKey('team', lifecycleKey(bob)));
      expect(read).toMatchObject({ kind: 'done', value: { row: { state: 'active' } } });
    } finally {
      await p.registry.stop();
      ownPublisher.close();
      await ownLink.close();
      await own.stop();
    }
  });
});
