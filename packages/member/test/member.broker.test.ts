import { JetStreamApi, type Link, Publisher } from '@plane3/link';
import type { Member } from '@plane3/member';
import { HEADER, handOverDurable, handOverSubject } from '@plane3/protocol';
import { type NatsProc, startNats } from '@plane3/testkit';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import {
  ALICE,
  handOver,
  makeDurable,
  messageOf,
  NAMES,
  openAlice,
  openTestLink,
  outstanding,
  postAs,
  provision,
  startDaemon,
} from './world.ts';

let broker: NatsProc;
let link: Link;
let publisher: Publisher;
let alice: Member;
const members: Member[] = [];
beforeEach(async () => {
  broker = await startNats();
  link = await openTestLink(broker, 'world');
  publisher = new Publisher(link);
  await provision(link);
});
afterEach(async () => {
  for (const m of members.splice(0)) await m.close();
  publisher.close();
  await link.close();
  await broker.stop();
});
const open = async (over: Parameters<typeof openAlice>[1] = {}): Promise<Member> => {
  const member = await openAlice(link, over);
  members.push(member);
  return member;
};
const WAIT = { timeout: 10_000 };

describe('joining', () => {
  test('without a daemon a member is joined live, says why, and becomes durable once one serves', async () => {
    alice = await open();
    const first = await alice.join('team');
    expect(first).toMatchObject({ live: true, durable: false, retrying: true });
    expect(first.text).toMatch(/^joined live, durable backstop unestablished \(unavailable/);
    await postAs(publisher, messageOf({ text: 'live all the same' }));
    const got = await alice.receive({ waitMs: 5_000 });
    expect(got.items).toMatchObject([{ kind: 'live', text: 'live all the same' }]);
    const daemon = await startDaemon(link);
    await vi.waitFor(
      () => expect(alice.state().channels).toMatchObject([{ durable: true, joinCursor: 40 }]),
      WAIT,
    );
    expect(daemon.joins).toEqual([{ channel: 'team', joinCursor: 40 }]);
  });

  test('with a daemon it is joined durable, and a live channel needs none', async () => {
    const daemon = await startDaemon(link);
    alice = await open();
    expect(await alice.join('team')).toMatchObject({ text: 'joined durable', generation: 3 });
    expect(await alice.join('talk')).toMatchObject({ text: 'joined live', class: 'live' });
    expect(daemon.joins).toHaveLength(1);
  });

  test('a join that is refused claims its first frontier when it is tried again', async () => {
    let ready = false;
    let frontier = 40;
    const seen: (number | undefined)[] = [];
    await startDaemon(link, {
      handlers: {
        list: () =>
          Promise.resolve({
            ok: true,
            data: {
              memberships: [],
              gaps: [],
              channels: [{ channel: 'team', class: 'durable', frontier: frontier++ }],
            },
          }),
        join: (_, a) => {
          seen.push(a.joinCursor);
          return Promise.resolve(
            ready
              ? {
                  ok: true,
                  data: {
                    durable: true,
                    generation: 1,
                    joinCursor: a.joinCursor ?? 0,
                    cursorSource: 'client',
                  },
                }
              : {
                  ok: false,
                  code: 'failed-precondition',
                  message: 'not ready',
                  outcome: 'not-executed',
                },
          );
        },
      },
    });
    alice = await open();
    expect((await alice.join('team')).text).toBe(
      'joined live, durable backstop unestablished (failed-precondition: not ready)',
    );
    ready = true;
    await vi.waitFor(() => expect(alice.state().channels[0]?.durable).toBe(true), WAIT);
    expect(new Set(seen)).toEqual(new Set([40]));
    expect(seen.length).toBeGreaterThan(1);
  });

  test('leaving closes the membership and drops what waits of the channel', async () => {
    const daemon = await startDaemon(link);
    alice = await open();
    await alice.join('team');
    await postAs(publisher, messageOf({ text: 'too late' }));
    await vi.waitFor(() => expect(alice.state().waiting.live).toBe(1), WAIT);
    expect(await alice.leave('team')).toMatchObject({
      kind: 'done',
      value: { leaveCursor: 40, disposed: 2 },
    });
    expect(daemon.leaves).toEqual([{ channel: 'team', generation: 3 }]);
    await handOver(publisher, messageOf({ text: 'a copy that was under way' }), { seq: 9 });
    await postAs(publisher, messageOf({ text: 'after' }));
    expect(await alice.receive()).toMatchObject({ items: [] });
    expect(alice.state().counts.afterLeave).toBe(2);
  });

  test('without a daemon a leave says so, and nothing of the channel surfaces here', async () => {
    alice = await open();
    await alice.join('team');
    expect(await alice.leave('team')).toMatchObject({ kind: 'refused', reason: 'not-serving' });
    expect(alice.state().channels).toMatchObject([{ live: false, durable: false }]);
    await postAs(publisher, messageOf({}));
    expect((await alice.receive()).items).toEqual([]);
  });
});

describe('posting', () => {
  test('the receipt tells the guarantee: durable, live only, or unknown without a daemon', async () => {
    alice = await open();
    expect(await alice.post('team', 'first')).toMatchObject({
      kind: 'done',
      value: { seq: 1, class: 'unknown', guarantee: 'unknown' },
    });
    await startDaemon(link);
    await vi.waitFor(
      async () =>
        expect(await alice.post('team', 'x')).toMatchObject({
          value: { class: 'durable', guarantee: 'durable' },
        }),
      WAIT,
    );
    expect(await alice.post('talk', 'x')).toMatchObject({ value: { guarantee: 'live-only' } });
    expect(await alice.post('elsewhere', 'x')).toMatchObject({ value: { guarantee: 'unknown' } });
  });

  test('a repeated post under its id is stored once', async () => {
    alice = await open();
    const first = await alice.post('team', 'once', {
      id: 'p1',
      mentions: [' BOB '],
      data: { a: 1 },
    });
    expect(await alice.post('team', 'once', { id: 'p1' })).toEqual({
      kind: 'done',
      value: { ...(first.kind === 'done' ? first.value : {}), duplicate: true },
    });
    const stored = await new JetStreamApi(link).atSeq(NAMES.streams.chat, 1);
    if (stored.kind !== 'done' || stored.value === undefined) throw new Error('not stored');
    expect(JSON.parse(new TextDecoder().decode(stored.value.body))).toMatchObject({
      id: 'p1',
      mentions: ['bob'],
      from: { id: 'local.alice' },
      parts: [
        { kind: 'text', text: 'once' },
        { kind: 'data', data: { a: 1 } },
      ],
    });
  });

  test('what is no message of the contract is refused before it is sent', async () => {
    alice = await open();
    expect(await alice.post('no channel', 'x')).toMatchObject({ reason: 'malformed' });
    expect(await alice.post('team.*', 'x')).toMatchObject({ reason: 'malformed' });
  });
});

describe('receiving', () => {
  test('nothing is confirmed by reading; confirm is answered by the broker', async () => {
    await startDaemon(link);
    alice = await open();
    for (const i of [1, 2, 3]) await handOver(publisher, messageOf({ text: `n${i}` }), { seq: i });
    const got = await alice.receive({ maxEntries: 2 });
    expect(got).toMatchObject({
      mail: 'answered',
      more: 1,
      items: [
        { kind: 'durable', seq: 1, text: 'n1', from: 'local.bob', redelivered: false },
        { kind: 'durable', seq: 2, text: 'n2' },
      ],
    });
    expect(await outstanding(link)).toEqual({ unacked: 2, waiting: 1 });
    expect(await got.items[0]?.confirm()).toEqual({ kind: 'done', value: undefined });
    expect(await outstanding(link)).toEqual({ unacked: 1, waiting: 1 });
  });

  test('a member that ends without confirming gets the same entries again', async () => {
    await startDaemon(link);
    const first = await openAlice(link);
    await handOver(publisher, messageOf({ text: 'owed' }), { seq: 1 });
    expect((await first.receive()).items).toHaveLength(1);
    await first.close();
    alice = await open();
    const again = await alice.receive({ waitMs: 5_000 });
    expect(again.items).toMatchObject([{ text: 'owed', redelivered: true }]);
    expect(await again.items[0]?.confirm()).toMatchObject({ kind: 'done' });
    expect(await outstanding(link)).toEqual({ unacked: 0, waiting: 0 });
  });

  test('peeking takes nothing', async () => {
    await startDaemon(link);
    alice = await open();
    await handOver(publisher, messageOf({ text: 'look' }), { seq: 1 });
    expect((await alice.receive({ peek: true })).items).toMatchObject([{ text: 'look' }]);
    const taken = await alice.receive({ waitMs: 5_000 });
    expect(taken.items).toMatchObject([{ text: 'look' }]);
    await taken.items[0]?.confirm();
    expect((await alice.receive()).items).toEqual([]);
  });

  test('a waiting read wakes for a copy that comes', async () => {
    await startDaemon(link);
    alice = await open();
    const waiting = alice.receive({ waitMs: 20_000 });
    await vi.waitFor(async () => {
      const info = await new JetStreamApi(link).consumerInfo(
        NAMES.streams.dlv,
        handOverDurable(ALICE),
      );
      expect(info.kind === 'done' && info.value.num_waiting).toBe(1);
    }, WAIT);
    const begin = performance.now();
    await handOver(publisher, messageOf({ text: 'woken' }), { seq: 1 });
    expect((await waiting).items).toMatchObject([{ text: 'woken' }]);
    expect(performance.now() - begin).toBeLessThan(5_000);
  });

  test('one post on the live and the durable path surfaces once, and its confirm acknowledges the copy', async () => {
    await startDaemon(link);
    alice = await open();
    await alice.join('team');
    const message = messageOf({ text: 'twice' });
    const seq = await postAs(publisher, message);
    const live = await alice.receive({ waitMs: 5_000 });
    expect(live.items).toMatchObject([{ kind: 'live', text: 'twice' }]);
    await handOver(publisher, message, { seq });
    expect((await alice.receive()).items).toEqual([]);
    expect(await outstanding(link)).toEqual({ unacked: 1, waiting: 0 });
    await live.items[0]?.confirm();
    expect(await outstanding(link)).toEqual({ unacked: 0, waiting: 0 });
    // A copy that comes after the confirm is acknowledged unseen.
    await handOver(publisher, message, { seq });
    expect((await alice.receive()).items).toEqual([]);
    await vi.waitFor(async () => expect((await outstanding(link)).unacked).toBe(0), WAIT);
  });

  test('posts without an id are neither merged nor doubled, and one confirm acknowledges one', async () => {
    await startDaemon(link);
    alice = await open();
    await alice.join('team');
    const message = messageOf({ id: '', text: 'anonymous' });
    const seqs = [await postAs(publisher, message), await postAs(publisher, message)];
    for (const seq of seqs) await handOver(publisher, message, { seq });
    const items: unknown[] = [];
    await vi.waitFor(async () => {
      items.push(...(await alice.receive()).items);
      expect(items).toHaveLength(2);
      expect((await outstanding(link)).waiting).toBe(0);
    }, WAIT);
    expect((await alice.receive()).items).toEqual([]);
    await (items[0] as { confirm(): Promise<unknown> }).confirm();
    expect(await outstanding(link)).toEqual({ unacked: 1, waiting: 0 });
  });

  test('hostile copies are terminated and surface nothing', async () => {
    await startDaemon(link);
    alice = await open();
    const raw = (body: string, headers: readonly (readonly [string, string])[]) =>
      publisher.publish(
        handOverSubject(NAMES.prefix, ALICE),
        new TextEncoder().encode(body),
        headers,
      );
    const frame: readonly [string, string] = [HEADER.frame, '1'];
    await raw('{"stream":"CHAT_main","seq":7}', []);
    await raw('{"version":1,"channel":"team","msg":{}}', [frame]);
    await raw('['.repeat(10_000), [frame]);
    await handOver(publisher, messageOf({}), { headers: [['Nats-Subject', 'cotal.main.x']] });
    const forged = { ...messageOf({}), from: { id: 'UAQG.alice', name: 'x' } };
    await handOver(publisher, forged);
    await handOver(publisher, messageOf({ text: 'good' }), { seq: 6 });
    const got = await alice.receive({ waitMs: 5_000 });
    expect(got.items).toMatchObject([{ text: 'good' }]);
    expect(alice.state().counts.framesTerminated).toBe(5);
    await vi.waitFor(async () => expect((await outstanding(link)).unacked).toBe(1), WAIT);
  });

  test('live frames that are no posts, and the own ones, are dropped', async () => {
    await startDaemon(link);
    alice = await open();
    await alice.join('talk');
    link.publish(`${NAMES.prefix}.chat.local.bob.talk`, new TextEncoder().encode('{"seq":1}'));
    link.publish(`${NAMES.prefix}.chat.UAQG.bob.talk`, new TextEncoder().encode('{}'));
    const forged = { ...messageOf({ channel: 'talk' }), from: { id: 'local.eve', name: 'eve' } };
    link.publish(
      `${NAMES.prefix}.chat.local.bob.talk`,
      new TextEncoder().encode(JSON.stringify(forged)),
    );
    await alice.post('talk', 'my own');
    await postAs(publisher, messageOf({ channel: 'talk', text: 'good' }));
    const got = await alice.receive({ waitMs: 5_000 });
    expect(got.items).toMatchObject([{ text: 'good', kind: 'live', channel: 'talk' }]);
    expect(alice.state().counts.liveInvalid).toBe(3);
  });

  test('"no mail" needs an answered read: without a daemon, or without the durable, it is unknown', async () => {
    alice = await open();
    expect(await alice.receive()).toMatchObject({ items: [], mail: 'unknown' });
    await startDaemon(link);
    expect(await alice.receive()).toMatchObject({ items: [], mail: 'answered', more: 0 });
    const api = new JetStreamApi(link);
    await api.consumerDelete(NAMES.streams.dlv, handOverDurable(ALICE));
    expect(await alice.receive()).toMatchObject({
      items: [],
      mail: 'unknown',
      reason: expect.stringContaining('binding-lost'),
    });
    const waiting = alice.receive({ waitMs: 20_000 });
    await makeDurable(link, ALICE);
    for (let i = 1; i <= 7; i++) await handOver(publisher, messageOf({}), { seq: i });
    const got = [...(await waiting).items];
    got.push(...(await alice.receive()).items);
    expect(got).toHaveLength(7);
  });

  test('a live flood is bounded and told, and displaces no durable copy', async () => {
    await startDaemon(link);
    alice = await open();
    await alice.join('talk');
    await handOver(publisher, messageOf({ text: 'owed' }), { seq: 1 });
    await Promise.all(
      Array.from({ length: 1_200 }, () => postAs(publisher, messageOf({ channel: 'talk' }))),
    );
    await vi.waitFor(() => expect(alice.state().counts.live).toBe(1_200), WAIT);
    expect(alice.state().waiting.live).toBe(1_000);
    const got = await alice.receive({ maxEntries: 10 });
    expect(got.items[0]).toMatchObject({ kind: 'durable', text: 'owed' });
    expect(got.items).toHaveLength(10);
    expect(got.notices).toEqual([
      { kind: 'notice', reason: 'live-overflow', channel: 'talk', count: 200 },
    ]);
    expect(got.more).toBe(991);
  });
});

describe('the connection', () => {
  test('after a reconnect a live channel tells of the gap, a durable one need not, and both go on', async () => {
    const own = await openTestLink(broker, 'daemon');
    await startDaemon(own);
    alice = await open();
    await alice.join('team');
    await alice.join('talk');
    await broker.restart();
    await vi.waitFor(() => expect(link.connected && own.connected).toBe(true), WAIT);
    const got = await alice.receive({ waitMs: 5_000 });
    expect(got.notices).toMatchObject([{ reason: 'live-gap', channel: 'talk' }]);
    await vi.waitFor(async () => {
      await postAs(publisher, messageOf({ channel: 'talk', text: 'again' }));
      expect((await alice.receive({ waitMs: 200 })).items.length).toBeGreaterThan(0);
    }, WAIT);
    expect(alice.state().channels).toMatchObject([{ durable: true }, { live: true }]);
    await own.close();
  });

  test('health is an answered question: unknown within a second once the daemon is gone', async () => {
    const daemon = await startDaemon(link);
    alice = await open();
    expect(await alice.health()).toMatchObject({ state: 'serving', incarnation: 'i' });
    await daemon.server.stop();
    const begin = performance.now();
    expect(await alice.health()).toMatchObject({ state: 'unknown' });
    expect(performance.now() - begin).toBeLessThan(5_000);
  });

  test('presence is written under the own key and ends with offline', async () => {
    const present = await openAlice(link, { presence: true, role: 'reviewer' });
    const api = new JetStreamApi(link);
    const read = async (): Promise<unknown> => {
      const last = await api.lastOf(
        `KV_${NAMES.buckets.presence}`,
        `$KV.${NAMES.buckets.presence}.local.alice`,
      );
      if (last.kind !== 'done' || last.value === undefined) throw new Error('no record');
      return JSON.parse(new TextDecoder().decode(last.value.body));
    };
    const card = { id: 'local.alice', name: 'alice', role: 'reviewer', kind: 'agent' };
    expect(await read()).toMatchObject({ card, status: 'idle', lifecycleUid: ALICE.uid });
    await present.setStatus('working');
    expect(await read()).toMatchObject({ status: 'working' });
    await present.close();
    expect(await read()).toMatchObject({ status: 'offline' });
  });
});
