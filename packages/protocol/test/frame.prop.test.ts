import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { chatSubject, decodeFrame, encodeFrame, JSON_DEPTH_MAX, judgePost } from '../src/index.ts';
import { channel, json, messageOf, PREFIX, principal } from './arbitraries.ts';

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

const whole = fc
  .tuple(principal, channel, fc.constantFrom(undefined, 2, '\t'))
  .chain(([from, ch, indent]) =>
    messageOf(from, ch).map((m) => ({ from, channel: ch, text: JSON.stringify(m, null, indent) })),
  );

describe('the hand-over frame (wire contract section 5)', () => {
  it('is exactly version, channel and the very bytes of the sender', () => {
    fc.assert(
      fc.property(whole, ({ channel: ch, text }) => {
        const frame = new TextDecoder().decode(encodeFrame(ch, bytes(text)));
        expect(frame).toBe(`{"version":1,"channel":"${ch}","msg":${text}}`);
      }),
    );
  });

  it('gives back the whole message, unknown fields included', () => {
    fc.assert(
      fc.property(whole, ({ channel: ch, text }) => {
        const frame = decodeFrame(encodeFrame(ch, bytes(text)));
        expect(frame).toMatchObject({ version: 1, channel: ch });
        const want = JSON.parse(text);
        expect(frame?.msg).toEqual(want);
      }),
    );
  });

  it('can be read for every body that is judged a post, and only for those', () => {
    const odd = fc.constantFrom('', '\ufeff', ' ', '\n', '[', '}', ',1', '//');
    fc.assert(
      fc.property(whole, odd, odd, (w, before, after) => {
        const body = bytes(`${before}${w.text}${after}`);
        const verdict = judgePost(PREFIX, chatSubject(PREFIX, w.from, w.channel), body);
        const frame = decodeFrame(encodeFrame(w.channel, body));
        expect(frame !== undefined).toBe(verdict.kind === 'post');
      }),
    );
  });

  it('can be read for a post that is nested as deep as a post may be', () => {
    const head = { id: '', ts: 1, space: 's', from: { id: 'local.a', name: 'a' }, channel: 'c' };
    const text = (depth: number): string =>
      JSON.stringify({ ...head, parts: [], x: '@' }).replace(
        '"@"',
        `${'['.repeat(depth - 1)}${']'.repeat(depth - 1)}`,
      );
    const subject = `${PREFIX}.chat.local.a.c`;
    expect(judgePost(PREFIX, subject, bytes(text(JSON_DEPTH_MAX))).kind).toBe('post');
    expect(decodeFrame(encodeFrame('c', bytes(text(JSON_DEPTH_MAX))))).toBeDefined();
    expect(judgePost(PREFIX, subject, bytes(text(JSON_DEPTH_MAX + 1))).kind).toBe('anomaly');
  });

  it('is no frame with another version, another channel, a pattern, or without a message', () => {
    const msg =
      '{"id":"","ts":1,"space":"s","from":{"id":"local.a","name":"a"},"channel":"c","parts":[]}';
    expect(decodeFrame(bytes(`{"version":1,"channel":"c","msg":${msg}}`))).toBeDefined();
    for (const bad of [
      `{"version":2,"channel":"c","msg":${msg}}`,
      `{"version":"1","channel":"c","msg":${msg}}`,
      `{"version":1,"channel":"d","msg":${msg}}`,
      `{"version":1,"channel":"*","msg":${msg.replace('"c"', '"*"')}}`,
      `{"version":1,"channel":"c"}`,
      `{"channel":"c","msg":${msg}}`,
      `[${msg}]`,
      '',
    ])
      expect(decodeFrame(bytes(bad)), bad).toBeUndefined();
  });

  it('never throws, whatever the body', () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.uint8Array(),
          json.map((v) => bytes(JSON.stringify(v))),
        ),
        (body) => {
          expect(decodeFrame(body)).toBeUndefined();
        },
      ),
    );
  });
});
