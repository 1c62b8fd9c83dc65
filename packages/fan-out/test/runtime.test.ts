import type { FanOut } from '@plane3/fan-out';
import { decodeFrame, HEADER } from '@plane3/protocol';
import { describe, expect, test } from 'vitest';
import { breathe, key, peer, subjectOf, World } from './world.ts';

const phaseOf = (f: FanOut) => f.status().phase;

/** Alice posts, bob and carol are members of `team`. */
const team = (): World => {
  const w = new World();
  w.directory.join(peer('bob'), 'team', 0, 1);
  w.directory.join(peer('carol'), 'team', 0, 2);
  return w;
};
const say = (w: World, text = 'hello') => w.post({ from: 'alice', channel: 'team', text });

describe('copies', () => {
  test('one for each member, framed, with whitelisted headers and the fence’s cursor behind them', async () => {
    const w = team();
    const f = await w.started();
    say(w);
    expect(await w.settle(f)).toBe(true);
    expect(w.copies()).toEqual([`1>${key('bob')}/1`, `1>${key('carol')}/2`]);
    const [copy] = w.inbox.copies;
    const entry = `a1.1.${key('bob')}.1`;
    expect(Object.fromEntries(copy?.headers ?? [])).toEqual({
      [HEADER.msgId]: entry,
      [HEADER.entry]: entry,
      [HEADER.seq]: '1',
      [HEADER.incarnation]: 'a1',
      [HEADER.channel]: 'team',
      [HEADER.kind]: 'durable',
      [HEADER.generation]: '1',
      [HEADER.from]: 'local.alice',
      [HEADER.frame]: '1',
    });
    expect(decodeFrame(copy?.body ?? new Uint8Array())?.msg.channel).toBe('team');
    expect(w.inbox.cursor).toMatchObject({ incarnation: 'a1', seq: 1 });
    expect(w.told.map((t) => [t.entryId, t.storeSeq, t.kind, t.from])).toEqual(
      w.inbox.copies.map((c) => [
        c.headers.get(HEADER.entry),
        c.storeSeq,
        'durable',
        'local.alice',
      ]),
    );
  });

  test('posts without an id are neither merged nor doubled', async () => {
    const w = team();
    const f = await w.started();
    for (let i = 0; i < 3; i++) say(w, 'the same');
    expect(await w.settle(f)).toBe(true);
    expect(w.copies()).toHaveLength(6);
    w.inbox.forgetIds();
    const again = await w.started();
    expect(await w.settle(again)).toBe(true);
    expect(w.copies()).toHaveLength(6);
  });

  test('posts of before the first start are covered from the sequence that the composition names', async () => {
    const w = team();
    for (let i = 0; i < 5; i++) say(w);
    const f = await w.started({ fromSeqIfNoCursor: 4 });
    expect(await w.settle(f)).toBe(true);
    expect(w.copies().map((c) => c.split('>')[0])).toEqual(['4', '4', '5', '5']);
    expect(f.decided()).toBe(5);
  });

  test('a post of 10,000 members is written within the window, and the next one after it', async () => {
    const w = new World();
    for (let i = 0; i < 10_000; i++) w.directory.join(peer(`m${i}`), 'team', 0, i + 1);
    const f = await w.started({ settings: { limits: { copiesOpenMax: 100 } } });
    say(w);
    say(w);
    let openMax = 0;
    f.onStored(() => {
      openMax = Math.max(openMax, f.status().copiesOpen);
    });
    expect(await w.settle(f)).toBe(true);
    expect(w.inbox.copies).toHaveLength(20_000);
    expect(openMax).toBeLessThanOrEqual(100);
  });

  test('the cursor write is coalesced: many posts, few cursors', async () => {
    const w = team();
    const f = await w.started();
    const { store } = w;
    const write = store.writeCursor.bind(store);
    store.writeCursor = async (cursor) => {
      await breathe(); // a store takes a moment to answer
      return write(cursor);
    };
    for (let i = 0; i < 400; i++) say(w);
    expect(await w.settle(f)).toBe(true);
    const cursors = w.inbox.stored.filter((m) => m.kind === 'cursor').length;
    expect(cursors).toBeLessThan(20);
    expect(w.inbox.cursor?.seq).toBe(400);
  });
});

describe('answers', () => {
  test('S160 a lost answer is unknown: the store is read, the copy is there once, the cursor moves once', async () => {
    const w = team();
    let lost = 1;
    w.inbox.fault = (op) => (op === 'put' && lost-- > 0 ? 'lost-answer' : 'none');
    const f = await w.started();
    w.inbox.forgetIds();
    say(w);
    expect(await w.settle(f)).toBe(true);
    expect(w.copies()).toEqual([`1>${key('bob')}/1`, `1>${key('carol')}/2`]);
    expect(f.status().counters).toMatchObject({ recoveries: 1, found: 2, posts: 1 });
    expect(w.told.map((t) => t.entryId)).toHaveLength(2);
  });

  test('a false duplicate is not proof: the copy is written under the next attempt number', async () => {
    const w = team();
    let lies = 2;
    w.inbox.fault = (op) => (op === 'put' && lies-- > 0 ? 'false-duplicate' : 'none');
    const f = await w.started();
    say(w);
    expect(await w.settle(f)).toBe(true);
    expect(w.copies().sort()).toEqual([`1>${key('bob')}/1`, `1>${key('carol')}/2`]);
    expect(w.inbox.copies.map((c) => c.headers.get(HEADER.msgId)?.endsWith('~1'))).toEqual([
      true,
      true,
    ]);
    expect(f.status().counters.falseDuplicates).toBe(2);
  });

  test('a store that calls everything a duplicate stops the cursor and nothing is dropped', async () => {
    const w = team();
    let lying = true;
    w.inbox.fault = (op) => (op === 'put' && lying ? 'false-duplicate' : 'none');
    const f = await w.started();
    say(w);
    expect(await w.settle(f, 20)).toBe(false);
    expect(w.inbox.cursor?.seq).toBe(0);
    expect(f.status().reason?.trouble).toBe('false-duplicates');
    lying = false;
    expect(await w.settle(f)).toBe(true);
    expect(w.copies()).toHaveLength(2);
  });

  test('S149 a full store stops fan-out, which says so, drops nothing and goes on when there is room', async () => {
    const w = team();
    let full = true;
    w.inbox.fault = (op) => (op === 'put' && full ? 'store-full' : 'none');
    const f = await w.started();
    say(w);
    expect(await w.settle(f, 20)).toBe(false);
    expect(f.status().reason).toMatchObject({ trouble: 'store-full' });
    expect(w.inbox.cursor?.seq).toBe(0);
    full = false;
    expect(await w.settle(f)).toBe(true);
    expect(w.copies()).toHaveLength(2);
    expect(f.status().reason).toBeUndefined();
  });

  test('a raised fence ends it at once: no copy, no cursor, and it says so', async () => {
    const w = team();
    const f = await w.started();
    const events: string[] = [];
    f.onEvent((e) => events.push(e.kind === 'phase' ? e.phase : e.kind));
    w.inbox.raiseFence();
    say(w);
    await breathe();
    expect(phaseOf(f)).toBe('stopped');
    expect(events).toEqual(['stopped', 'fence-lost']);
    expect(w.inbox.copies).toHaveLength(0);
    expect(await f.settle(key('bob'))).toMatchObject({ kind: 'refused', reason: 'stopped' });
    const again = await w.started();
    expect(await w.settle(again)).toBe(true);
    expect(w.copies()).toHaveLength(2);
  });
});

describe('posts that cannot be copied', () => {
  test('are buried once with reason and sequence, also across a replay, and hold nobody up', async () => {
    const w = team();
    let lost = 2;
    w.inbox.fault = (op) => (op === 'put' && lost-- > 0 ? 'lost-answer' : 'none');
    const f = await w.started();
    w.chat.publish(subjectOf('alice', 'team'), new Uint8Array([0xff]));
    say(w);
    w.chat.publish('cotal.main.chat.local.alice', new Uint8Array());
    expect(await w.settle(f)).toBe(true);
    expect(w.dead.burials.map((b) => [b.post.seq, b.reason])).toEqual([
      [1, 'malformed-json'],
      [3, 'malformed-subject'],
    ]);
    expect(w.copies()).toHaveLength(2);
    expect(f.status().counters.buried).toMatchObject({ 'malformed-json': 1 });
  });

  test('too large for a copy is a dead letter, once for all its members', async () => {
    const w = team();
    w.inbox.bytesMax = 1_000;
    const f = await w.started();
    say(w, 'x'.repeat(2_000));
    say(w);
    expect(await w.settle(f)).toBe(true);
    expect(w.dead.burials.map((b) => [b.post.seq, b.reason])).toEqual([[1, 'too-large']]);
    expect(w.copies()).toEqual([`2>${key('bob')}/1`, `2>${key('carol')}/2`]);
  });

  test('a dead-post store that does not answer holds the cursor back', async () => {
    const w = team();
    let down = true;
    w.dead.fault = () => (down ? 'not-done' : 'none');
    const { fanOut } = w.daemon();
    down = false;
    void fanOut.start({ fenceSeq: w.inbox.raiseFence(), incarnation: 'd' });
    await breathe();
    down = true;
    w.chat.publish(subjectOf('alice', 'team'), new Uint8Array([0xff]));
    expect(await w.settle(fanOut, 10)).toBe(false);
    expect(w.inbox.cursor?.seq).toBe(0);
    down = false;
    expect(await w.settle(fanOut)).toBe(true);
    expect(w.dead.burials).toHaveLength(1);
  });
});

describe('the source', () => {
  test('a broken run is opened again behind the cursor', async () => {
    const w = team();
    const f = await w.started();
    say(w);
    expect(await w.settle(f)).toBe(true);
    w.chat.breakRun('consumer deleted');
    await breathe();
    expect(f.status().reason).toMatchObject({ trouble: 'source-broken' });
    say(w);
    expect(await w.settle(f)).toBe(true);
    expect(w.copies()).toHaveLength(4);
  });

  test('a recreated stream is noticed before the old cursor is used, and refused', async () => {
    const w = team();
    const f = await w.started();
    say(w);
    await w.settle(f);
    const seen: unknown[] = [];
    f.onEvent((e) => seen.push(e));
    w.chat.recreate('b2');
    say(w);
    say(w);
    await w.settle(f, 5);
    expect(f.status()).toMatchObject({
      phase: 'stopped',
      reason: { trouble: 'store-recreated', detail: 'incarnation' },
    });
    expect(seen).toContainEqual({
      kind: 'store-recreated',
      refused: true,
      recreated: {
        why: 'incarnation',
        cursor: { incarnation: 'a1', seq: 1 },
        found: { incarnation: 'b2', lastSeq: 2 },
      },
    });
    expect(w.copies()).toHaveLength(2);
  });

  test('with the restart setting a recreated stream is begun anew, without mixing ids', async () => {
    const w = team();
    const f = await w.started();
    say(w);
    await w.settle(f);
    await f.stop();
    w.chat.recreate('b2');
    say(w);
    const started = f.start({
      fenceSeq: w.inbox.raiseFence(),
      incarnation: 'd2',
      onRecreated: 'restart',
    });
    expect(await started).toMatchObject({ kind: 'done' });
    expect(await w.settle(f)).toBe(true);
    expect(w.inbox.copies.map((c) => c.headers.get(HEADER.incarnation))).toEqual([
      'a1',
      'a1',
      'b2',
      'b2',
    ]);
  });

  test('a stream that ends before the cursor is refused whatever the setting', async () => {
    const w = team();
    const f = await w.started();
    say(w);
    say(w);
    await w.settle(f);
    await f.stop();
    w.chat.posts.pop();
    w.chat.lastSeq = 1;
    const fenceSeq = w.inbox.raiseFence();
    const started = await f.start({ fenceSeq, incarnation: 'd2', onRecreated: 'restart' });
    expect(started).toMatchObject({ kind: 'refused', reason: 'store-recreated', detail: 'behind' });
  });

  test('posts that were evicted ahead of the cursor are reported as a range, never skipped in silence', async () => {
    const w = team();
    for (let i = 0; i < 5; i++) say(w);
    w.chat.evictThrough(3);
    const { fanOut } = w.daemon();
    const seen: unknown[] = [];
    fanOut.onEvent((e) => {
      if (e.kind === 'evicted') seen.push(e);
    });
    void fanOut.start({ fenceSeq: w.inbox.raiseFence(), incarnation: 'd' });
    expect(await w.settle(fanOut)).toBe(true);
    expect(seen).toEqual([{ kind: 'evicted', from: 1, to: 3 }]);
    expect(fanOut.status().counters.evicted).toBe(3);
    expect(w.copies()).toHaveLength(4);
  });

  test('posts that one sender pushed out behind older posts of others are reported too', async () => {
    const w = team();
    for (let i = 0; i < 8; i++) say(w);
    // A limit per subject leaves holes; the stream still begins where it began.
    w.chat.posts = w.chat.posts.filter((p) => ![2, 3, 6].includes(p.seq));
    const { fanOut } = w.daemon();
    const seen: unknown[] = [];
    fanOut.onEvent((e) => {
      if (e.kind === 'evicted') seen.push(e);
    });
    void fanOut.start({ fenceSeq: w.inbox.raiseFence(), incarnation: 'd' });
    expect(await w.settle(fanOut)).toBe(true);
    expect(seen).toEqual([
      { kind: 'evicted', from: 2, to: 3 },
      { kind: 'evicted', from: 6, to: 6 },
    ]);
    expect(fanOut.status().counters.evicted).toBe(3);
    expect(w.copies()).toHaveLength(10);
  });
});

describe('the directory', () => {
  test('while it is not current posts wait and nothing is guessed', async () => {
    const w = team();
    const f = await w.started();
    w.directory.current = false;
    say(w);
    expect(await w.settle(f, 10)).toBe(false);
    expect(f.status()).toMatchObject({ phase: 'running', waitsForDirectory: true, cursorLag: 1 });
    w.directory.current = true;
    expect(await w.settle(f)).toBe(true);
    expect(w.copies()).toHaveLength(2);
  });

  test('settle answers when nothing of the member is on its way, and withdraws what is not written', async () => {
    const w = team();
    const row = w.directory.rows[1];
    const f = await w.started({ settings: { limits: { copiesOpenMax: 1 } } });
    let held = true;
    const put = w.store.put.bind(w.store);
    w.store.put = (copy, onAnswer) => {
      if (held) holding.push(() => put(copy, onAnswer));
      else put(copy, onAnswer);
    };
    const holding: (() => void)[] = [];
    say(w);
    await breathe();
    expect(holding).toHaveLength(1); // bob's; carol's waits for the window
    if (row !== undefined) row.leaveCursor = 0;
    expect(await f.settle(key('carol'))).toMatchObject({ kind: 'done' });
    let settled = false;
    const bob = f.settle(key('bob')).then(() => {
      settled = true;
    });
    await breathe();
    expect(settled).toBe(false);
    held = false;
    for (const go of holding) go();
    await bob;
    expect(await w.settle(f)).toBe(true);
    expect(w.copies()).toEqual([`1>${key('bob')}/1`]);
    expect(f.status().counters.withdrawn).toBe(1);
  });

  test('a listener that throws is counted and stops nothing', async () => {
    const w = team();
    const f = await w.started();
    f.onStored(() => {
      throw new Error('defect of the host');
    });
    say(w);
    expect(await w.settle(f)).toBe(true);
    expect(f.status().listenerFaults).toBe(2);
  });
});

describe('two holders', () => {
  test('the stale one cannot take the consumer back: its recovery proves the fence first', async () => {
    const w = team();
    const stale = await w.started();
    const fresh = await w.started();
    for (let i = 0; i < 10; i++) {
      await breathe();
      w.time.advance(100);
    }
    expect(stale.status().reason).toMatchObject({ trouble: 'fence-lost' });
    expect(fresh.status()).toMatchObject({ phase: 'running', counters: { recoveries: 0 } });
  });
});

describe('start and stop', () => {
  test('a stop awaits what is open and writes the cursor; the next start finds nothing to do', async () => {
    const w = team();
    const f = await w.started();
    for (let i = 0; i < 20; i++) say(w);
    await breathe();
    await f.stop();
    expect(phaseOf(f)).toBe('stopped');
    const before = w.inbox.cursor?.seq;
    const next = await w.started();
    expect(await w.settle(next)).toBe(true);
    expect(w.copies()).toHaveLength(40);
    expect(before).toBeGreaterThan(0);
  });

  test('a stop with writes that nobody answers is bounded', async () => {
    const w = team();
    const f = await w.started();
    w.store.put = () => {};
    say(w);
    await breathe();
    const stopped = f.stop();
    await breathe();
    w.time.advance(500);
    await stopped;
    expect(phaseOf(f)).toBe('stopped');
  });

  test('a second start is refused while the first one runs', async () => {
    const w = team();
    const f = await w.started();
    const again = await f.start({ fenceSeq: 1, incarnation: 'x' });
    expect(again).toMatchObject({ kind: 'refused', reason: 'already-started' });
  });

  test('a start that reaches nobody says unknown in time and goes on trying', async () => {
    const w = team();
    const { fanOut, source } = w.daemon();
    let down = true;
    source.fault = () => down;
    const started = fanOut.start({ fenceSeq: w.inbox.raiseFence(), incarnation: 'd' });
    for (let i = 0; i < 40; i++) {
      await breathe();
      w.time.advance(1_000);
    }
    expect(await started).toMatchObject({ kind: 'unknown' });
    down = false;
    say(w);
    expect(await w.settle(fanOut)).toBe(true);
  });
});

test('S140 a daemon that crashes again and again on one post, each time outside the duplicate window, stores it once', async () => {
  const w = team();
  let puts = 0;
  w.inbox.fault = (op) => (op === 'put' && ++puts % 2 === 0 ? 'not-done' : 'none');
  say(w);
  for (let i = 0; i < 6; i++) {
    const f = await w.started({ settings: { limits: { copiesOpenMax: 1 } } });
    await breathe();
    f['term'].over = true;
    w.inbox.forgetIds();
  }
  w.inbox.fault = () => 'none';
  const last = await w.started();
  expect(await w.settle(last)).toBe(true);
  expect(w.copies().sort()).toEqual([`1>${key('bob')}/1`, `1>${key('carol')}/2`]);
});

test('a stop during the back-off writes no cursor over copies that it has forgotten', async () => {
  const w = team();
  let lostCursors = 0;
  w.inbox.fault = (op) => (op === 'cursor' && lostCursors-- > 0 ? 'lost-answer' : 'none');
  const f = await w.started();
  lostCursors = 1;
  say(w);
  say(w);
  await breathe();
  expect(phaseOf(f)).toBe('backing-off');
  await f.stop();
  w.inbox.forgetIds();
  const next = await w.started();
  expect(await w.settle(next)).toBe(true);
  expect(w.copies()).toHaveLength(4);
});
