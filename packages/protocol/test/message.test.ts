import { describe, expect, it } from 'vitest';
import {
  isPublishable,
  JSON_DEPTH_MAX,
  jsonDepthWithin,
  judgePost,
  type Message,
  mentionedNames,
  messageSchema,
  parseJson,
} from '../src/index.ts';
import { PREFIX as P } from './arbitraries.ts';

const bytes = (value: unknown): Uint8Array =>
  new TextEncoder().encode(typeof value === 'string' ? value : JSON.stringify(value));
const DIGEST = `sha256:${'0'.repeat(64)}`;
const post = {
  id: 'm1',
  ts: 1_700_000_000_000,
  space: 'main',
  from: { id: 'local.alice', name: 'alice' },
  channel: 'team',
  parts: [{ kind: 'text', text: 'hello' }],
};
const SUBJECT = `${P}.chat.local.alice.team`;
const judge = (body: unknown, subject = SUBJECT) => judgePost(P, subject, bytes(body));
const accepts = (message: unknown): boolean => messageSchema.safeParse(message).success;
const withParts = (...parts: unknown[]) => ({ ...post, parts });

describe('a message (wire contract section 3)', () => {
  it('may bear an empty id, no parts, and every optional field', () => {
    expect(accepts({ ...post, id: '' })).toBe(true);
    expect(accepts({ ...post, parts: [] })).toBe(true);
    expect(
      accepts({
        ...post,
        mentions: ['bob'],
        replyTo: 'm0',
        contextId: 'c',
        from: { ...post.from, role: 'r' },
      }),
    ).toBe(true);
  });

  it('has exactly one destination', () => {
    const { channel: _, ...nowhere } = post;
    expect(accepts(nowhere)).toBe(false);
    expect(accepts({ ...nowhere, to: 'local.bob' })).toBe(true);
    expect(accepts({ ...nowhere, toService: 'reviewer' })).toBe(true);
    expect(accepts({ ...post, to: 'local.bob' })).toBe(false);
    expect(accepts({ ...post, to: 'local.bob', toService: 'reviewer' })).toBe(false);
  });

  it.each(['id', 'ts', 'space', 'from', 'parts'])('is none without %s', (field) => {
    expect(accepts({ ...post, [field]: undefined })).toBe(false);
    expect(accepts({ ...post, [field]: null })).toBe(false);
  });

  it('keeps unknown fields at every level', () => {
    const strange = {
      ...post,
      'x-a': [1],
      from: { ...post.from, 'x-b': true },
      parts: [{ kind: 'text', text: 'hello', 'x-c': {} }],
    };
    expect(messageSchema.parse(strange)).toEqual(strange);
  });

  it.each([
    ['text', { kind: 'text', text: '' }, { kind: 'text' }],
    ['data null', { kind: 'data', data: null }, { kind: 'data' }],
    [
      'data nested',
      { kind: 'data', data: { a: [{ b: [null, 1, 'x', false] }] } },
      { kind: 'data', data: { a: [undefined] } },
    ],
    ['data number', { kind: 'data', data: -0.5 }, { kind: 'data', data: Number.NaN }],
    ['data plain', { kind: 'data', data: {} }, { kind: 'data', data: new Date(0) }],
    [
      'artifact',
      { kind: 'artifact', name: 'a', mediaType: 'text/plain', digest: DIGEST, size: 0 },
      {
        kind: 'artifact',
        name: 'a',
        mediaType: 'text/plain',
        digest: DIGEST.toUpperCase(),
        size: 0,
      },
    ],
    [
      'artifact size',
      { kind: 'artifact', name: '', mediaType: '', digest: DIGEST, size: 1 },
      { kind: 'artifact', name: '', mediaType: '', digest: DIGEST, size: -1 },
    ],
    ['foreign kind', { kind: 'com.example.chartData', rows: [] }, { kind: 'chart', rows: [] }],
    ['foreign kind, dots', { kind: 'a.b' }, { kind: 'a..b' }],
  ])('has parts of known shape: %s', (_, good, bad) => {
    expect(accepts(withParts(good))).toBe(true);
    expect(accepts(withParts(bad))).toBe(false);
    expect(accepts(withParts(good, bad))).toBe(false);
  });

  it('is publishable only with a concrete channel and a real sender', () => {
    expect(isPublishable(post as Message)).toBe(true);
    expect(isPublishable({ ...post, channel: 'team.>' } as Message)).toBe(false);
    expect(isPublishable({ ...post, from: { id: 'alice', name: 'alice' } } as Message)).toBe(false);
  });

  it('mentions names in lower case, each once, and nobody by a blank', () => {
    const names = (mentions?: string[]) => mentionedNames({ ...post, mentions } as Message);
    expect(names(['Bob', 'bob ', '', '  ', 'ERIN'])).toEqual(['bob', 'erin']);
    expect(names()).toEqual([]);
  });
});

describe('the verdict on a post', () => {
  it('is a post when subject and body agree', () => {
    expect(judge(post)).toMatchObject({
      kind: 'post',
      from: { owner: 'local', actor: 'alice' },
      channel: 'team',
      message: post,
    });
  });

  it.each([
    ['malformed-subject', post, `${P}.chat.local.alice`],
    ['malformed-subject', post, `${P}.chat.UAQG.team.backend`],
    ['malformed-subject', post, 'cotal.other.chat.local.alice.team'],
    ['sender-mismatch', post, `${P}.chat.local.bob.team`],
    ['sender-mismatch', { ...post, from: { id: 'local.alicE', name: 'a' } }, SUBJECT],
    ['malformed-json', { ...post, channel: 'other' }, SUBJECT],
    ['malformed-json', { ...post, channel: undefined, to: 'local.bob' }, SUBJECT],
    ['malformed-json', { ...post, parts: 'hello' }, SUBJECT],
    ['malformed-json', [post], SUBJECT],
    ['malformed-json', 'null', SUBJECT],
    ['malformed-json', '', SUBJECT],
    ['malformed-json', '{"id":', SUBJECT],
    ['malformed-json', `\ufeff${JSON.stringify(post)}`, SUBJECT],
  ])('is %s otherwise', (anomaly, body, subject) => {
    expect(judge(body, subject)).toMatchObject({ kind: 'anomaly', anomaly });
  });

  it('is malformed-json for bytes that are not UTF-8', () => {
    const body = bytes(post);
    body[body.length - 4] = 0xff;
    expect(judgePost(P, SUBJECT, body)).toMatchObject({
      kind: 'anomaly',
      anomaly: 'malformed-json',
    });
  });

  it('never repeats more of a hostile subject than fits a log line', () => {
    const v = judge(post, 'x'.repeat(10_000));
    expect(v.kind === 'anomaly' && v.detail.length).toBeLessThanOrEqual(200);
  });

  it('costs a large data part time in the order of its size', () => {
    const data = Array.from({ length: 4_000 }, (_, i) => ({ i, a: [1, { b: null }], s: 'abc' }));
    const body = bytes(withParts({ kind: 'data', data }));
    const text = new TextDecoder().decode(body);
    const timeOf = (act: () => unknown): number => {
      const runs = Array.from({ length: 5 }, () => {
        const startMs = performance.now();
        act();
        return performance.now() - startMs;
      });
      return Math.min(...runs);
    };
    const parseMs = timeOf(() => JSON.parse(text));
    expect(timeOf(() => judgePost(P, SUBJECT, body))).toBeLessThan(20 * parseMs + 20);
  });
});

const nested = (depth: number): string => `${'['.repeat(depth)}${']'.repeat(depth)}`;

describe('the depth bound', () => {
  it('allows exactly its depth', () => {
    expect(parseJson(nested(JSON_DEPTH_MAX)).ok).toBe(true);
    expect(parseJson(nested(JSON_DEPTH_MAX + 1))).toEqual({ ok: false, why: 'nested too deep' });
    expect(parseJson(nested(100_000)).ok).toBe(false);
  });

  it('counts no brackets in strings, escaped quotes included', () => {
    const text = JSON.stringify({ a: `"\\${'['.repeat(500)}` });
    expect(jsonDepthWithin(text, 1)).toBe(true);
    expect(parseJson(text).ok).toBe(true);
  });

  it('counts siblings once', () => {
    expect(jsonDepthWithin(`[${'[],'.repeat(500)}[]]`, 2)).toBe(true);
    expect(jsonDepthWithin('[{"a":[]}]', 2)).toBe(false);
  });

  it('never throws, whatever the bytes', () => {
    for (const text of ['', '"', '\\', '{]', ']]]]', '[[[']) expect(parseJson(text).ok).toBe(false);
    expect(parseJson(new Uint8Array([0xc0, 0x80])).ok).toBe(false);
  });
});
