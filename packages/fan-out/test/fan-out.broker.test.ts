import type { FanOut } from '@plane3/fan-out';
import { HEADER, inboxCursorSubject } from '@plane3/protocol';
import { startRelay } from '@plane3/testkit';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { Mesh, NAMES } from './broker.ts';
import { key, peer, subjectOf } from './world.ts';

let mesh: Mesh;
beforeEach(async () => {
  mesh = await Mesh.start();
  mesh.directory.join(peer('bob'), 'team', 0, 1);
  mesh.directory.join(peer('carol'), 'team', 0, 2);
});
afterEach(() => mesh.stop());

const say = (text = 'hello') => mesh.post({ from: 'alice', channel: 'team', text });

/** The cursor covers everything that is posted. */
const covered = async (f: FanOut): Promise<void> => {
  const last = await mesh.lastPost();
  await expect.poll(() => f.cursor()?.seq, { timeout: 20_000, interval: 20 }).toBe(last);
};

const expected = (posts: number): string[] =>
  Array.from({ length: posts }, (_, i) => [
    `${i + 1}>${key('bob')}/1`,
    `${i + 1}>${key('carol')}/2`,
  ]).flat();

const sorted = async (): Promise<string[]> =>
  (await mesh.copies()).sort(
    (a, b) => Number.parseInt(a, 10) - Number.parseInt(b, 10) || (a < b ? -1 : 1),
  );

describe('crashes', () => {
  test('a daemon killed in the middle of its copies is followed by one that stores the rest, each once', async () => {
    const to = await mesh.access();
    const first = await mesh.started({}, to);
    let stored = 0;
    const killed = new Promise<void>((ok) => {
      first.onStored(() => {
        if (++stored === 150) ok(mesh.kill(first, to));
      });
    });
    for (let i = 0; i < 300; i++) await say(`post ${i}`);
    await killed;
    const second = await mesh.started();
    await covered(second);
    expect(await sorted()).toEqual(expected(300));
    expect(second.status().counters).toMatchObject({ falseDuplicates: 0 });
  });

  test('S140 kill after kill, outside the duplicate window, stores each copy of id-less posts once', async () => {
    await mesh.remake(NAMES.streams.inbox, { duplicate_window: 100_000_000 });
    for (let i = 0; i < 40; i++) await say('the same text, no id');
    for (let round = 0; round < 5; round++) {
      const to = await mesh.access();
      const f = mesh.daemon(to, { limits: { copiesOpenMax: 4 } });
      const fenceSeq = await mesh.raiseFence();
      const killed = new Promise<void>((ok) => {
        let stored = 0;
        f.onStored(() => {
          if (++stored === 12) ok(mesh.kill(f, to));
        });
      });
      await f.start({ fenceSeq, incarnation: `d${round}` });
      await killed;
      await new Promise((ok) => setTimeout(ok, 200)); // the window passes
    }
    const last = await mesh.started();
    await covered(last);
    expect(await sorted()).toEqual(expected(40));
  });

  test('S160 a broker that restarts in the middle: nothing is lost, nothing is doubled', async () => {
    const f = await mesh.started();
    let stored = 0;
    const restarted = new Promise<void>((ok) => {
      f.onStored(() => {
        if (++stored === 200) ok(mesh.nats.restart());
      });
    });
    for (let i = 0; i < 300; i++) await say(`post ${i}`).catch(() => {});
    await restarted;
    await expect.poll(() => mesh.tools.link.connected, { timeout: 10_000 }).toBe(true);
    await expect.poll(() => mesh.lastPost(), { timeout: 10_000 }).toBeGreaterThan(0);
    await say('after');
    await covered(f);
    const posts = await mesh.lastPost();
    expect(await sorted()).toEqual(expected(posts));
    expect(f.status().counters.recoveries).toBeGreaterThan(0);
  });

  test('S147 a store that lost its tail is refilled from the channel stream', async () => {
    const f = await mesh.started();
    for (let i = 0; i < 20; i++) await say();
    await covered(f);
    await f.stop();
    const { inbox } = NAMES.streams;
    const cursor = inboxCursorSubject(NAMES.prefix, 0);
    // Everything above the fence goes: the cursors and copies of the lost time.
    for (let seq = 2; ; seq++) {
      const o = await mesh.tools.api.nextOf(inbox, '>', seq);
      if (o.kind !== 'done' || o.value === undefined) break;
      if (o.value.subject !== cursor || o.value.seq > 30)
        await mesh.tools.api.deleteSeq(inbox, o.value.seq);
    }
    const kept = (await mesh.tools.api.lastOf(inbox, cursor)) as { value?: { body: Uint8Array } };
    const at = JSON.parse(new TextDecoder().decode(kept.value?.body)) as { seq: number };
    expect(at.seq).toBeLessThan(20);
    const next = await mesh.started();
    await covered(next);
    const again = (await sorted()).filter((c) => Number.parseInt(c, 10) > at.seq);
    expect(again).toEqual(expected(20).slice(at.seq * 2));
  });
});

describe('the consumer', () => {
  test('S162 is made again behind the cursor within 5 s after somebody deleted it', async () => {
    const f = await mesh.started();
    await say();
    await covered(f);
    const { chat } = NAMES.streams;
    const phases: string[] = [];
    f.onEvent((e) => {
      if (e.kind === 'phase') phases.push(`${e.phase} ${e.reason?.trouble ?? ''}`.trim());
    });
    await mesh.call(`CONSUMER.DELETE.${chat}.fanout`);
    await say();
    await expect.poll(() => f.cursor()?.seq, { timeout: 5_000 }).toBe(2);
    expect(phases[0]).toBe('backing-off source-broken');
    expect(phases.at(-1)).toBe('running');
    expect(await sorted()).toEqual(expected(2));
  });

  test('is taken back from somebody who pulls from it: the stolen posts are read again', async () => {
    const f = await mesh.started();
    await say();
    await covered(f);
    const { link } = mesh.tools;
    const inbox = `${link.inboxPrefix}.thief`;
    let stolen = 0;
    await link.subscribe(inbox, () => stolen++);
    for (let i = 0; i < 30; i++) {
      // Pulls wait in a queue and are served in turn: the thief gets some of the posts.
      link.publish(
        `$JS.API.CONSUMER.MSG.NEXT.${NAMES.streams.chat}.fanout`,
        new TextEncoder().encode('{"batch":1,"expires":5000000000}'),
        { reply: inbox },
      );
    }
    for (let i = 0; i < 200; i++) await say();
    await covered(f);
    expect(stolen).toBeGreaterThan(0);
    expect(await sorted()).toEqual(expected(201));
  });

  test('its acknowledged floor never stands above the stored cursor', async () => {
    const f = await mesh.started();
    for (let i = 0; i < 200; i++) await say();
    await covered(f);
    const floor = async () => {
      const o = await mesh.tools.api.consumerInfo(NAMES.streams.chat, 'fanout');
      return o.kind === 'done' ? o.value.ack_floor.stream_seq : -1;
    };
    await expect.poll(floor, { timeout: 5_000 }).toBe(200);
    mesh.directory.current = false;
    await say();
    await expect.poll(() => f.status().waitsForDirectory).toBe(true);
    expect(await floor()).toBe(200);
  });

  test('a recreated channel stream is refused before the old cursor is used', async () => {
    const f = await mesh.started();
    for (let i = 0; i < 3; i++) await say();
    await covered(f);
    await mesh.remake(NAMES.streams.chat);
    await expect
      .poll(() => f.status(), { timeout: 10_000 })
      .toMatchObject({ phase: 'stopped', reason: { trouble: 'store-recreated' } });
    const fenceSeq = await mesh.raiseFence();
    expect(await f.start({ fenceSeq, incarnation: 'd2' })).toMatchObject({
      kind: 'refused',
      reason: 'store-recreated',
    });
    await say('in the new stream');
    const o = await f.start({
      fenceSeq: await mesh.raiseFence(),
      incarnation: 'd3',
      onRecreated: 'restart',
    });
    expect(o.kind).toBe('done');
    await covered(f);
    expect(await mesh.copies()).toHaveLength(8);
  });
});

describe('the store', () => {
  test('another holder’s fence stops the stale one at its next write, and it says so', async () => {
    const stale = await mesh.started();
    await say();
    await covered(stale);
    const events: string[] = [];
    stale.onEvent((e) => events.push(e.kind));
    const fresh = await mesh.started();
    await say();
    await covered(fresh);
    await expect.poll(() => stale.status().phase, { timeout: 10_000 }).toBe('stopped');
    expect(stale.status().reason).toMatchObject({ trouble: 'fence-lost' });
    expect(events).toContain('fence-lost');
    expect(await sorted()).toEqual(expected(2));
  });

  test('a false duplicate, whose sequence reads back as nothing, is written under the next attempt', async () => {
    const f = await mesh.started();
    await say();
    await covered(f);
    // The broker's window remembers the id of a copy that is not there any more.
    const { inbox } = NAMES.streams;
    const from = mesh.told[0]?.entry;
    const id = `${from?.incarnation}.2.${key('bob')}.1`;
    const seq = await mesh.publish(`${NAMES.prefix}.dinbox.${key('bob')}`, new Uint8Array(), [
      [HEADER.msgId, id],
    ]);
    await mesh.call(`STREAM.MSG.DELETE.${inbox}`, { seq });
    await say();
    await covered(f);
    expect(f.status().counters.falseDuplicates).toBe(1);
    expect(await sorted()).toEqual(expected(2));
    const told = mesh.told.find((t) => t.entryId === id);
    const stored = await mesh.tools.api.atSeq(inbox, told?.storeSeq ?? 0);
    expect(stored.kind === 'done' && stored.value?.header(HEADER.msgId)).toBe(`${id}~1`);
  });

  test('S149 a full store stops fan-out, says so, and goes on when there is room', async () => {
    const { inbox } = NAMES.streams;
    await mesh.remake(inbox, { max_bytes: 60_000 });
    const f = await mesh.started();
    for (let i = 0; i < 100; i++) await say('x'.repeat(300));
    await expect
      .poll(() => f.status().reason, { timeout: 10_000, interval: 5 })
      .toMatchObject({ trouble: 'store-full' });
    expect(f.cursor()?.seq ?? 0).toBeLessThan(100);
    const kept = await mesh.copies();
    await mesh.call(`STREAM.UPDATE.${inbox}`, {
      name: inbox,
      subjects: [`${NAMES.prefix}.dinbox.>`],
      storage: 'file',
      retention: 'limits',
      discard: 'new',
      num_replicas: 1,
      allow_direct: true,
      allow_msg_ttl: true,
      max_bytes: 10_000_000,
    });
    await covered(f);
    expect(await sorted()).toEqual(expected(100));
    expect(kept.length).toBeLessThan(200);
  });

  test('its age limit ends entries, never the cursor: what is covered is not copied again', async () => {
    const second = 1_000_000_000;
    await mesh.remake(NAMES.streams.inbox, { max_age: second, duplicate_window: second / 10 });
    const f = await mesh.started();
    for (let i = 0; i < 5; i++) await say();
    await covered(f);
    await expect.poll(() => mesh.copies(), { timeout: 10_000 }).toEqual([]);
    await f.stop();
    const next = await mesh.started();
    await say();
    await covered(next);
    expect(next.status().counters).toMatchObject({ posts: 1, copies: 2 });
  });

  test('S160 a swallowed answer is unknown: the copy is there once and the cursor moves once', async () => {
    const relay = await startRelay(mesh.nats.port);
    try {
      const f = await mesh.started({}, await mesh.access(relay.url, 500));
      await say();
      await covered(f);
      relay.hold('toClient');
      relay.drop('toClient');
      await say();
      await new Promise((ok) => setTimeout(ok, 100));
      relay.cut();
      relay.pass('toClient');
      relay.release('toClient');
      await covered(f);
      expect(await sorted()).toEqual(expected(2));
    } finally {
      await relay.stop();
    }
  });
});

describe('posts that cannot be copied', () => {
  test('are buried once with reason and sequence, and the next post is copied', async () => {
    const f = await mesh.started();
    const { maxPayload } = mesh.tools.link;
    const team = subjectOf('alice', 'team');
    const bytes = (text: string) => new TextEncoder().encode(text);
    await mesh.publish(team, bytes('not JSON'));
    await mesh.publish(subjectOf('mallory', 'team'), bytes('{"id":""}'));
    await mesh.publish(`${NAMES.prefix}.chat.local.alice`, bytes('{}'));
    // What a publish with a reply inside the account makes the broker store.
    await mesh.publish(team, bytes('{"stream":"X","seq":1}'), [['Nats-Stream', 'X']]);
    const large = (size: number) =>
      mesh.post({ from: 'alice', channel: 'team', text: 'x'.repeat(size) });
    await large(maxPayload - 400); // as a post it fits, as a copy it does not
    await mesh.publish(team, new Uint8Array(maxPayload)); // nothing fits beside it
    await large(maxPayload - 2_000);
    await say();
    await covered(f);
    expect((await mesh.dead()).map((d) => [d.seq, d.reason, d.bytes > 0])).toEqual([
      ['1', 'malformed-json', true],
      ['2', 'malformed-json', true],
      ['3', 'malformed-subject', true],
      ['4', 'broker-headers', true],
      ['5', 'too-large', true],
      ['6', 'malformed-json', false],
    ]);
    expect(await sorted()).toEqual(expected(8).slice(12));
    expect(f.status().phase).toBe('running');
  });

  test('a sender’s own Nats headers do not reach the copy', async () => {
    const f = await mesh.started();
    const body = new TextEncoder().encode(
      JSON.stringify({
        id: 'same',
        ts: 1,
        space: 'main',
        from: { id: 'local.alice', name: 'alice' },
        channel: 'team',
        parts: [],
      }),
    );
    await mesh.publish(
      subjectOf('alice', 'team'),
      body,
      [
        ['Nats-TTL', '1s'],
        ['Nats-Rollup', 'all'],
        ['Nats-Expected-Stream', NAMES.streams.chat],
        ['X-Own', '1'],
      ].filter(([name]) => name !== 'Nats-TTL' && name !== 'Nats-Rollup') as [string, string][],
    );
    await covered(f);
    const copy = await mesh.tools.api.atSeq(NAMES.streams.inbox, mesh.told[0]?.storeSeq ?? 0);
    const names = copy.kind === 'done' ? (copy.value?.headerNames() ?? []) : [];
    expect([...names].sort()).toEqual(
      [
        HEADER.frame,
        HEADER.seq,
        HEADER.incarnation,
        HEADER.channel,
        HEADER.from,
        HEADER.msgId,
        HEADER.entry,
        HEADER.kind,
        HEADER.generation,
        HEADER.expectSubject,
        HEADER.expectSubjectSeq,
      ].sort(),
    );
  });
});

test('a catch-up copies what a member missed, and after a crash only the rest', async () => {
  for (let i = 0; i < 700; i++)
    await mesh.post({ from: i % 2 ? 'erin' : 'alice', channel: 'team' });
  const to = await mesh.access();
  const f = await mesh.started({}, to);
  await covered(f);
  const request = { member: key('dave'), channel: 'team', generation: 9, from: 100, to: 700 };
  let stored = 0;
  const running = f.catchUp(request);
  f.onStored(() => {
    if (++stored === 300) void mesh.kill(f, to);
  });
  expect((await running).kind).not.toBe('done');
  const next = await mesh.started();
  const o = await next.catchUp(request);
  expect(o).toMatchObject({ kind: 'done' });
  if (o.kind === 'done') expect(o.value.copied + o.value.present).toBe(600);
  if (o.kind === 'done') expect(o.value.present).toBeGreaterThanOrEqual(256);
  const dave = (await mesh.copies()).filter((c) => c.includes(key('dave')));
  expect(new Set(dave).size).toBe(600);
  expect(dave).toHaveLength(600);
});

test('2,000 posts to 10 members: every copy is there, and the rate is shown', async () => {
  for (let i = 0; i < 8; i++) mesh.directory.join(peer(`m${i}`), 'team', 0, 10 + i);
  // Two senders: one sender and channel keeps 1,000 posts.
  for (const from of ['alice', 'erin'])
    await Promise.all(
      Array.from({ length: 1_000 }, (_, i) => mesh.post({ from, channel: 'team', text: `${i}` })),
    );
  const f = mesh.daemon(await mesh.access());
  const fenceSeq = await mesh.raiseFence();
  const all = new Promise<void>((ok) => {
    f.onCursor((c) => {
      if (c.seq === 2_000) ok();
    });
  });
  await f.start({ fenceSeq, incarnation: 'd' });
  const at = performance.now();
  await all;
  const perSecond = Math.round(20_000 / ((performance.now() - at) / 1_000));
  expect(f.status().counters).toMatchObject({ copies: 20_000, posts: 2_000, recoveries: 0 });
  expect(new Set(await mesh.copies()).size).toBe(20_000);
  console.log(`fan-out alone: ${perSecond} copies/s`);
});

test('what left the channel stream before the first start is reported, not passed in silence', async () => {
  await Promise.all(Array.from({ length: 1_100 }, () => say()));
  const f = mesh.daemon(await mesh.access());
  const evicted: unknown[] = [];
  f.onEvent((e) => {
    if (e.kind === 'evicted') evicted.push(e);
  });
  await f.start({ fenceSeq: await mesh.raiseFence(), incarnation: 'd' });
  await covered(f);
  expect(evicted).toEqual([{ kind: 'evicted', from: 1, to: 100 }]);
  expect(f.status().counters).toMatchObject({ evicted: 100, copies: 2_000 });
});
