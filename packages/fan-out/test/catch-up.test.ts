import { describe, expect, test } from 'vitest';
import { breathe, key, peer, World } from './world.ts';

const request = (from: number, to: number) => ({
  member: key('bob'),
  channel: 'team',
  generation: 7,
  from,
  to,
});

const history = async (posts: number) => {
  const w = new World();
  for (let i = 0; i < posts; i++) {
    w.post({ from: i % 3 === 2 ? 'bob' : 'alice', channel: i % 5 === 4 ? 'other' : 'team' });
  }
  const f = await w.started({ fromSeqIfNoCursor: posts + 1 });
  expect(await w.settle(f)).toBe(true);
  return { w, f };
};

describe('catch-up', () => {
  test('copies exactly (from, to] of the channel but the member’s own posts', async () => {
    const { w, f } = await history(12);
    const o = await f.catchUp(request(2, 11));
    // 5 and 10 are of the other channel; 3, 6, 9 are bob's own
    expect(w.copies().map((c) => c.split('>')[0])).toEqual(['4', '7', '8', '11']);
    expect(o).toEqual({ kind: 'done', value: { copied: 4, present: 0, tooLarge: 0 } });
    expect(w.told).toHaveLength(4);
  });

  test('again after a crash stores nothing twice, outside the duplicate window too', async () => {
    const { w, f } = await history(12);
    await f.catchUp(request(2, 7));
    w.inbox.forgetIds();
    const next = await w.started();
    await w.settle(next);
    const o = await next.catchUp(request(2, 11));
    expect(o).toEqual({ kind: 'done', value: { copied: 2, present: 2, tooLarge: 0 } });
    expect(w.copies()).toHaveLength(4);
  });

  test('reads page by page through a long history', async () => {
    const { w, f } = await history(1_000);
    const o = await f.catchUp(request(0, 1_000));
    expect(o).toMatchObject({ kind: 'done', value: { copied: w.copies().length } });
    expect(new Set(w.copies()).size).toBe(w.copies().length);
    expect(w.copies().length).toBeGreaterThan(500);
  });

  test('names the range that is evicted and copies the rest', async () => {
    const { w, f } = await history(12);
    w.chat.evictThrough(6);
    const o = await f.catchUp(request(2, 11));
    expect(o).toMatchObject({ kind: 'done', value: { copied: 3, lost: { from: 3, to: 6 } } });
  });

  test('sees that the stream dropped the oldest posts of one sender', async () => {
    const w = new World();
    w.chat.perSubjectMax = 3;
    w.post({ from: 'carol', channel: 'team' });
    for (let i = 0; i < 5; i++) w.post({ from: 'alice', channel: 'team' });
    const f = await w.started({ fromSeqIfNoCursor: 7 });
    await w.settle(f);
    const o = await f.catchUp(request(1, 6));
    expect(o).toMatchObject({ kind: 'done', value: { copied: 3, lost: { from: 2, to: 3 } } });
    const later = await f.catchUp({ ...request(4, 6), generation: 8 });
    expect(later).toEqual({ kind: 'done', value: { copied: 2, present: 0, tooLarge: 0 } });
  });

  test('repeats a page whose answers were lost, each copy once', async () => {
    const { w, f } = await history(12);
    let lost = 2;
    w.inbox.fault = (op) => (op === 'put' && lost-- > 0 ? 'lost-answer' : 'none');
    const o = await f.catchUp(request(2, 11));
    expect(o).toMatchObject({ kind: 'done' });
    expect(new Set(w.copies()).size).toBe(4);
    expect(w.copies()).toHaveLength(4);
  });

  test('gives up as unknown when the store never answers', async () => {
    const { w, f } = await history(12);
    w.inbox.fault = (op) => (op === 'put' ? 'not-done' : 'none');
    expect(await f.catchUp(request(2, 11))).toMatchObject({ kind: 'unknown' });
  });

  test('waits until fan-out has passed its range, and no longer than it may', async () => {
    const { w, f } = await history(12);
    w.directory.current = false;
    w.post({ from: 'alice', channel: 'team' });
    const waiting = f.catchUp(request(2, 13));
    await breathe();
    expect(w.copies()).toHaveLength(0);
    w.time.advance(10_000);
    expect(await waiting).toMatchObject({ kind: 'unknown' });
    const second = f.catchUp(request(2, 13));
    w.directory.current = true;
    await w.settle(f);
    expect(await second).toMatchObject({ kind: 'done', value: { copied: 5 } });
  });

  test('more catch-ups than run at a time take turns', async () => {
    const { w, f } = await history(12);
    const all = Array.from({ length: 30 }, (_, i) =>
      f.catchUp({ ...request(2, 11), member: key(`m${i}`), generation: i + 1 }),
    );
    const answers = await Promise.all(all);
    expect(answers.every((a) => a.kind === 'done' && a.value.copied === 7)).toBe(true);
    expect(w.copies()).toHaveLength(210);
  });

  test('a settled member ends it', async () => {
    const { w, f } = await history(1_000);
    const running = f.catchUp(request(0, 1_000));
    await Promise.resolve();
    expect(await f.settle(key('bob'))).toMatchObject({ kind: 'done' });
    expect(await running).toMatchObject({ kind: 'refused', reason: 'settled' });
    const copies = w.copies().length;
    await breathe();
    expect(w.copies().length).toBe(copies);
  });

  test('a lost fence ends it and fan-out', async () => {
    const { w, f } = await history(12);
    w.inbox.raiseFence();
    expect(await f.catchUp(request(2, 11))).toMatchObject({
      kind: 'refused',
      reason: 'fence-lost',
    });
    expect(f.status()).toMatchObject({ phase: 'stopped', reason: { trouble: 'fence-lost' } });
  });

  test('a recreated stream is refused, not copied', async () => {
    const { w, f } = await history(12);
    w.chat.incarnation = 'b2';
    expect(await f.catchUp(request(2, 11))).toMatchObject({ reason: 'store-recreated' });
    expect(w.copies()).toHaveLength(0);
  });

  test('a mention copy in the slot stands for the member’s copy', async () => {
    const w = new World();
    w.directory.classes.set('team', 'live');
    w.directory.names.set('bob', peer('bob'));
    w.directory.grant(peer('bob'), 'team');
    w.post({ from: 'alice', channel: 'team', mentions: ['bob'] });
    const f = await w.started();
    await w.settle(f);
    expect(await f.catchUp(request(0, 1))).toMatchObject({ value: { copied: 0, present: 1 } });
    expect(w.copies()).toEqual([`1>${key('bob')}/0`]);
  });
});
