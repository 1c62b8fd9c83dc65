import { decide, judge, mentionBudget, type Post } from '@plane3/fan-out';
import { MemoryDirectory } from '@plane3/fan-out/memory';
import { decodeFrame } from '@plane3/protocol';
import { describe, expect, test } from 'vitest';
import { bodyOf, key, type PostText, PREFIX, peer, subjectOf } from './world.ts';

const post = (p: PostText, o: Partial<Post> = {}): Post => ({
  seq: 10,
  subject: subjectOf(p.from, p.channel),
  body: bodyOf(p),
  storedAtMs: 1_000,
  brokerHeaders: [],
  pending: 0,
  ...o,
});

const setUp = (copiesMax = 60) => {
  const directory = new MemoryDirectory();
  const budget = mentionBudget(copiesMax);
  const plan = (p: Post) => decide(p, { prefix: PREFIX, directory, budget });
  return { directory, plan };
};

describe('a post on a durable channel', () => {
  test('is owed to each member at its sequence but not to the sender, in any of its lives', () => {
    const { directory, plan } = setUp();
    directory.join(peer('alice'), 'team', 1, 1);
    directory.join(peer('alice', 2), 'team', 1, 2);
    directory.join(peer('bob'), 'team', 1, 3);
    directory.join(peer('carol'), 'team', 10, 4);
    directory.join(peer('dave'), 'team', 1, 5).leaveCursor = 9;
    directory.join(peer('erin'), 'other', 1, 6);
    directory.join(peer('al'), 'team', 1, 7);
    const { copies } = plan(post({ from: 'alice', channel: 'team' }));
    expect(copies).toEqual([
      { member: key('bob'), generation: 3, kind: 'durable' },
      { member: key('al'), generation: 7, kind: 'durable' },
    ]);
  });

  test('S171 a member that is also mentioned, and never connected, gets one copy', () => {
    const { directory, plan } = setUp();
    directory.join(peer('bob'), 'team', 1, 3);
    directory.names.set('bob', peer('bob'));
    directory.names.set('erin', peer('erin'));
    directory.grant(peer('bob'), 'team');
    directory.grant(peer('erin'), 'team');
    const { copies } = plan(post({ from: 'alice', channel: 'team', mentions: ['bob', 'erin'] }));
    expect(copies).toEqual([{ member: key('bob'), generation: 3, kind: 'durable' }]);
  });
});

describe('a mention on a live channel', () => {
  test('S14 reaches the authorised peer alone, and is silent about one who may not read', () => {
    const { directory, plan } = setUp();
    directory.classes.set('live', 'live');
    for (const name of ['x', 'y', 'z']) directory.names.set(name, peer(name));
    directory.grant(peer('x'), 'live');
    directory.grant(peer('y'), 'live');
    const { copies, mentions } = plan(post({ from: 'a', channel: 'live', mentions: ['X', 'z'] }));
    expect(copies).toEqual([{ member: key('x'), generation: 0, kind: 'mention' }]);
    expect(mentions).toEqual(['copied', 'unauthorised']);
  });

  test('makes no copy for the sender, for nobody, for an ambiguous name, or twice for one member', () => {
    const { directory, plan } = setUp();
    directory.classes.set('live', 'live');
    for (const name of ['a', 'x']) directory.grant(peer(name), 'live');
    directory.names.set('a', peer('a', 2));
    directory.names.set('x', peer('x'));
    directory.names.set('ex', peer('x'));
    directory.names.set('two', 'ambiguous');
    const mentions = ['a', 'x', 'ex', 'two', 'ghost'];
    const plan1 = plan(post({ from: 'a', channel: 'live', mentions }));
    expect(plan1.mentions).toEqual(['self', 'copied', 'same-member', 'ambiguous', 'nobody']);
    expect(plan1.copies).toHaveLength(1);
  });

  test('is bounded per sender and minute by the broker’s time, and a replay decides alike', () => {
    const { directory, plan } = setUp(2);
    directory.classes.set('live', 'live');
    const names = ['x', 'y', 'z'];
    for (const name of names) {
      directory.names.set(name, peer(name));
      directory.grant(peer(name), 'live');
    }
    const at = (seq: number, storedAtMs: number, from = 'a') =>
      plan(post({ from, channel: 'live', mentions: names }, { seq, storedAtMs })).mentions;
    const full = ['copied', 'copied', 'over-budget'];
    const spent = ['over-budget', 'over-budget', 'over-budget'];
    expect(at(10, 1_000)).toEqual(full);
    expect(at(11, 2_000)).toEqual(spent);
    expect(at(12, 2_000, 'b')).toEqual(full);
    expect(at(10, 1_000)).toEqual(full);
    expect(at(11, 2_000)).toEqual(spent);
    expect(at(12, 61_001)).toEqual(full);
  });

  test('counts names beyond those looked at as over budget', () => {
    const { directory, plan } = setUp();
    directory.classes.set('live', 'live');
    const mentions = Array.from({ length: 300 }, (_, i) => `ghost${i}`);
    const outcomes = plan(post({ from: 'a', channel: 'live', mentions })).mentions;
    expect(outcomes.filter((o) => o === 'nobody')).toHaveLength(256);
    expect(outcomes.filter((o) => o === 'over-budget')).toHaveLength(44);
  });
});

describe('the verdict on a post', () => {
  const good = { from: 'alice', channel: 'team' };
  const reason = (p: Post) => {
    const j = judge(PREFIX, p);
    return j.kind === 'buried' ? j.reason : j.kind;
  };

  test.each<[string, Post, string]>([
    ['sound', post(good), 'sound'],
    ['no channel', post(good, { subject: 'cotal.main.chat.local.alice' }), 'malformed-subject'],
    ['not a chat subject', post(good, { subject: 'cotal.main.dinbox.x' }), 'malformed-subject'],
    ['forged sender', post(good, { subject: subjectOf('mallory', 'team') }), 'sender-mismatch'],
    ['not JSON', post(good, { body: new Uint8Array([1, 2]) }), 'malformed-json'],
    ['empty', post(good, { body: new Uint8Array() }), 'malformed-json'],
    ['a broker answer', post(good, { brokerHeaders: ['Nats-Stream'] }), 'broker-headers'],
  ])('%s', (_name, p, expected) => {
    expect(reason(p)).toBe(expected);
  });

  const nested = (depth: number): Uint8Array => {
    const text = new TextDecoder().decode(bodyOf(good));
    const deep = `${'['.repeat(depth)}${']'.repeat(depth)}`;
    return new TextEncoder().encode(text.replace('"id"', `"deep":${deep},"id"`));
  };

  test('every sound post makes a frame that a member can read, down to the deepest nesting', () => {
    const kinds = new Set<string>();
    for (let depth = 55; depth < 70; depth++) {
      const j = judge(PREFIX, post(good, { body: nested(depth) }));
      kinds.add(j.kind);
      if (j.kind === 'sound') expect(decodeFrame(j.post.frame)).toBeDefined();
      else expect(j.reason).toBe('malformed-json');
    }
    expect([...kinds].sort()).toEqual(['buried', 'sound']);
  });

  test('a byte order mark is no JSON, so it never stands inside a frame', () => {
    const body = new Uint8Array([0xef, 0xbb, 0xbf, ...bodyOf(good)]);
    const j = judge(PREFIX, post(good, { body }));
    expect(j).toMatchObject({ kind: 'buried', reason: 'malformed-json' });
  });
});
