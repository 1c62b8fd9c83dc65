import {
  type Arrival,
  judgeRequest,
  NonceCache,
  type Request,
  type Verdict,
} from '@plane3/endpoint';
import { BROKER_HEADERS } from '@plane3/protocol';
import { beforeEach, describe, expect, test } from 'vitest';
import {
  ALICE,
  arrival,
  BOB,
  EPOCH,
  INSTANCE,
  NOW_MS,
  request,
  SETTINGS,
  subjectOf,
} from './requests.ts';

let nonces = new NonceCache();
beforeEach(() => {
  nonces = new NonceCache();
});
const judge = (a: Arrival): Verdict => judgeRequest(SETTINGS, nonces, a);
const codeOf = (a: Arrival): string => {
  const v = judge(a);
  return v.kind === 'refusal' ? v.code : v.kind;
};
const join = (over: Partial<Request> = {}) => request('join', { channel: 'team' }, over);
const raw = (text: string): Partial<Arrival> => ({ body: new TextEncoder().encode(text) });

describe('the judge of requests', () => {
  test('a whole request is a call, with its caller from the subject', () => {
    expect(judge(arrival('join', join()))).toMatchObject({
      kind: 'call',
      caller: ALICE,
      args: { channel: 'team' },
      deadlineMs: 5_000,
      replyExpected: true,
    });
  });

  test.each([
    ['no caller', 'cotal.main.ep.one.delivery.join'],
    ['a token too many', `${subjectOf('join')}.x`],
    ['a token too few', subjectOf('join').split('.').slice(0, -1).join('.')],
    [
      'an nkey as owner',
      `cotal.main.ep.one.delivery.join.UAQG.alice.${ALICE.uid}.${'n'.repeat(22)}`,
    ],
    ['a short nonce', subjectOf('join', ALICE, 'short')],
    ['another space', subjectOf('join').replace('cotal.main', 'cotal.other')],
    ['another endpoint', subjectOf('join').replace('.delivery.', '.manager.')],
    ['a retired form', 'cotal.main.ctl.manager.local.alice'],
    [
      'another instance',
      subjectOf('join').replace('ep.one.delivery', `ep.inst.delivery.${'x'.repeat(26)}`),
    ],
    ['a subject beyond 1024 bytes', `${subjectOf('join')}${'n'.repeat(1024)}`],
  ])('a subject with %s is never handled and nobody is answered', (_, subject) => {
    expect(judge(arrival('join', join(), { subject })).kind).toBe('ignore');
  });

  test('the own instance rail is served', () => {
    const subject = subjectOf('join').replace('ep.one.delivery', `ep.inst.delivery.${INSTANCE}`);
    expect(judge(arrival('join', join(), { subject })).kind).toBe('call');
  });

  test.each(BROKER_HEADERS)('a request that bears %s is refused', (header) => {
    expect(codeOf(arrival('join', join(), { headerNames: [header.toLowerCase()] }))).toBe(
      'bad-request',
    );
  });

  test.each<[string, string, Partial<Arrival>]>([
    ['bad-request', 'not JSON', raw('{"v":1,')],
    ['bad-request', 'not UTF-8', { body: Uint8Array.of(0xff, 0xfe, 0x7b) }],
    ['bad-request', 'empty', raw('')],
    ['bad-request', 'an array', raw('[]')],
    ['bad-request', 'a publish acknowledgement', raw('{"stream":"CHAT_main","seq":7}')],
    ['bad-request', 'deep', raw('['.repeat(60_000))],
    ['bad-request', 'huge', raw(`{"v":1,"x":"${'y'.repeat(70_000)}"}`)],
    ['unsupported-version', 'of another version', raw('{"v":2}')],
  ])('%s: a body that is %s', (code, _, over) => {
    expect(codeOf(arrival('join', join(), over))).toBe(code);
  });

  const digests = (over: Partial<Request['op']>): Partial<Request> => ({
    op: { ...join().op, ...over },
  });
  const zero = `sha256:${'0'.repeat(64)}`;
  test.each<[string, string, Partial<Request>]>([
    ['op-mismatch', 'another command in the body', digests({ command: 'leave' })],
    ['op-mismatch', 'another endpoint in the body', digests({ endpoint: 'manager' })],
    ['class-mismatch', 'another class', { class: 'durable' }],
    ['contract-mismatch', 'another input digest', digests({ inputDigest: zero })],
    ['contract-mismatch', 'another output digest', digests({ outputDigest: zero })],
    ['failed-precondition', 'another instance', { bind: { instanceId: 'x', epoch: EPOCH } }],
    ['expired', 'another epoch', { bind: { instanceId: INSTANCE, epoch: '6' } }],
    ['sender-mismatch', 'another sender', { from: { id: 'local.bob', name: 'bob' } }],
    ['contract-invalid', 'unknown arguments', { args: { channel: 'team', as: 'bob' } }],
    ['contract-invalid', 'null arguments', { args: null }],
    ['deadline-exceeded', 'a deadline that has passed', { deadlineMs: NOW_MS - 1 }],
    ['bad-request', 'a negative deadline', { deadlineMs: -1 }],
  ])('%s: %s', (code, _, over) => {
    const v = judge(arrival('join', join(over)));
    expect(v).toMatchObject({ kind: 'refusal', code, outcome: 'not-executed', requestId: 'r1' });
    expect(nonces.size).toBe(0);
  });

  test('a refused bind names the instance and epoch that serve', () => {
    const v = judge(arrival('join', join({ bind: { instanceId: INSTANCE, epoch: '6' } })));
    expect(v).toMatchObject({
      details: [{ kind: 'ai.cotal.ep.bind-refused', instanceId: INSTANCE, epoch: EPOCH }],
    });
  });

  test('an unknown field of the envelope is refused', () => {
    expect(codeOf(arrival('join', { ...join(), extra: 1 }))).toBe('bad-request');
  });

  test('digests are required on every command but describe', () => {
    const bare = (command: string, args?: unknown) =>
      request(command, args, { op: { endpoint: 'delivery', command } });
    expect(codeOf(arrival('list', bare('list', {})))).toBe('contract-mismatch');
    expect(codeOf(arrival('describe', bare('describe')))).toBe('call');
    expect(codeOf(arrival('describe', bare('describe', null)))).toBe('call');
  });

  test('a command that is not in the table is unimplemented', () => {
    const op = { endpoint: 'delivery', command: 'drain', inputDigest: zero, outputDigest: zero };
    expect(codeOf(arrival('drain', request('drain', {}, { op })))).toBe('unimplemented');
  });

  test('a replayed nonce is refused on either rail, and another caller may use the same', () => {
    const subject = subjectOf('list');
    const list = request('list', {});
    expect(codeOf(arrival('list', list, { subject }))).toBe('call');
    const other = subject.replace('ep.one.delivery', `ep.inst.delivery.${INSTANCE}`);
    for (const again of [subject, other])
      expect(judge(arrival('list', list, { subject: again }))).toMatchObject({
        code: 'already-exists',
        outcome: 'unknown',
      });
    const n = subject.split('.').at(-1) as string;
    const bobs = request('list', {}, { from: { id: 'local.bob', name: 'bob' } });
    expect(codeOf(arrival('list', bobs, { subject: subjectOf('list', BOB, n) }))).toBe('call');
  });

  test('a deadline is a duration, or an instant of the wall clock, and is clamped', () => {
    const left = (deadlineMs: number) => {
      const v = judge(arrival('join', join({ deadlineMs })));
      return v.kind === 'call' ? v.deadlineMs : v.kind;
    };
    expect(left(250)).toBe(250);
    expect(left(NOW_MS + 250)).toBe(250);
    expect(left(NOW_MS + 10_000_000)).toBe(60_000);
  });

  test('who wants no reply is not owed one even when refused', () => {
    const v = judge(arrival('join', join({ replyExpected: false, class: 'x' })));
    expect(v).toMatchObject({ kind: 'refusal', replyExpected: false });
  });

  test('the memory of nonces is bounded in number and age', () => {
    const small = new NonceCache(3, 100);
    for (let i = 0; i < 10; i++) small.add(`k${i}`, 0);
    expect(small.size).toBe(3);
    expect(small.has('k9', 99)).toBe(true);
    expect(small.has('k9', 100)).toBe(false);
    expect(small.has('k0', 0)).toBe(false);
    small.add('later', 200);
    expect(small.size).toBe(1);
  });
});
