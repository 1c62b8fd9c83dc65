import { describe, expect, it } from 'vitest';
import {
  anycastSubject,
  chatFilter,
  chatSubject,
  contractSubject,
  deadLetterSubject,
  deadPostSubject,
  directDurable,
  directSubject,
  handOverDurable,
  handOverFenceSubject,
  handOverSubject,
  historyDurable,
  inboxCursorSubject,
  inboxFenceSubject,
  inboxSubject,
  parseAck,
  parseAnycast,
  parseChat,
  parseDirect,
  parseMemberSubject,
  parseReply,
  parseRequest,
  parseTimer,
  replySubject,
  requestSubject,
  roleDurable,
  timerSubject,
} from '../src/index.ts';
import { PREFIX as P } from './arbitraries.ts';

const A = `u_${'a'.repeat(26)}`;
const B = `u_${'b'.repeat(26)}`;
const UID = 'c'.repeat(26);
const IID = 'd'.repeat(26);
const NONCE = 'n'.repeat(22);
const alice = { owner: A, actor: 'alice', uid: UID };
const bob = { owner: B, actor: 'bob' };

describe('test vectors of the wire contract, section 2', () => {
  it('a post by alice on team.backend', () => {
    expect(parseChat(P, `cotal.main.chat.${A}.alice.team.backend`)).toEqual({
      from: { owner: A, actor: 'alice' },
      channel: 'team.backend',
    });
  });

  it('a direct message by alice to bob', () => {
    expect(parseDirect(P, `cotal.main.inst.${B}.bob.${A}.alice`)).toEqual({
      to: bob,
      from: { owner: A, actor: 'alice' },
    });
  });

  it('an anycast by alice to the role reviewer', () => {
    expect(parseAnycast(P, `cotal.main.svc.reviewer.${A}.alice`)).toEqual({
      role: 'reviewer',
      from: { owner: A, actor: 'alice' },
    });
  });

  it('a post without a channel is malformed', () => {
    expect(parseChat(P, `cotal.main.chat.${A}.alice`)).toBeUndefined();
    expect(parseChat(P, `cotal.main.chat.${A}.alice.`)).toBeUndefined();
  });

  it('a post whose owner is a connection key is dropped', () => {
    const nkey = `UAQG${'A'.repeat(52)}`;
    expect(parseChat(P, `cotal.main.chat.${nkey}.team.backend`)).toBeUndefined();
  });

  it('a retired form is never handled', () => {
    const retired = `cotal.main.ctl.manager.${A}.alice`;
    for (const parse of [
      parseChat,
      parseDirect,
      parseAnycast,
      parseRequest,
      parseReply,
      parseTimer,
    ])
      expect(parse(P, retired)).toBeUndefined();
  });
});

describe('subjects as written', () => {
  it('are those of the table in section 2 and the streams of section 4', () => {
    expect(chatSubject(P, alice, 'team.backend')).toBe(`${P}.chat.${A}.alice.team.backend`);
    expect(chatFilter(P, 'team.backend')).toBe(`${P}.chat.*.*.team.backend`);
    expect(directSubject(P, bob, alice)).toBe(`${P}.inst.${B}.bob.${A}.alice`);
    expect(anycastSubject(P, 'reviewer', alice)).toBe(`${P}.svc.reviewer.${A}.alice`);
    expect(inboxSubject(P, alice)).toBe(`${P}.dinbox.${A}.alice.${UID}`);
    expect(inboxFenceSubject(P, 0)).toBe(`${P}.dinbox._fence.0`);
    expect(inboxCursorSubject(P, 0)).toBe(`${P}.dinbox._cursor.0`);
    expect(handOverSubject(P, alice)).toBe(`${P}.dlv.${A}.alice.${UID}`);
    expect(handOverFenceSubject(P, 1)).toBe(`${P}.dlv._fence.1`);
    expect(deadLetterSubject(P, alice)).toBe(`${P}.dead.${A}.alice.${UID}`);
    expect(deadPostSubject(P)).toBe(`${P}.dead._post`);
    expect(contractSubject(P, 'ab')).toBe(`${P}.epc.ab`);
  });

  it('name the durables of section 4', () => {
    expect(handOverDurable(alice)).toBe(`dlv_${A}-alice-${UID}`);
    expect(directDurable(alice)).toBe(`dm_${A}-alice-${UID}`);
    expect(historyDurable(alice)).toBe(`chathist_${A}-alice-${UID}`);
    expect(roleDurable('reviewer')).toBe('svc_reviewer');
  });

  it('a reply has 11 tokens, a timer 8', () => {
    const reply = {
      endpoint: 'delivery',
      instanceId: IID,
      epoch: '1',
      caller: alice,
      nonce: NONCE,
    };
    expect(replySubject(P, reply).split('.')).toHaveLength(11);
    const timer = {
      endpoint: 'x',
      instanceId: IID,
      epoch: '1',
      timerId: 't',
      verb: 'fire',
    } as const;
    expect(timerSubject(P, timer).split('.')).toHaveLength(8);
  });
});

describe('what stands beside a member or an untargeted command', () => {
  it('fence, cursor and dead post are no member', () => {
    for (const s of [inboxFenceSubject(P, 0), inboxCursorSubject(P, 0)])
      expect(parseMemberSubject(P, 'dinbox', s)).toBeUndefined();
    expect(parseMemberSubject(P, 'dlv', handOverFenceSubject(P, 0))).toBeUndefined();
    expect(parseMemberSubject(P, 'dead', deadPostSubject(P))).toBeUndefined();
    expect(parseMemberSubject(P, 'dlv', inboxSubject(P, alice))).toBeUndefined();
  });

  it('a request with mode and target tokens is of another shape', () => {
    const one = requestSubject(P, {
      endpoint: 'delivery',
      command: 'join',
      caller: alice,
      nonce: NONCE,
    });
    expect(parseRequest(P, one)).toBeDefined();
    expect(parseRequest(P, one.replace('.join.', '.join.m.target.'))).toBeUndefined();
    expect(parseRequest(P, one.replace(NONCE, NONCE.slice(1)))).toBeUndefined();
    expect(parseRequest(P, one.replace('.join.', '.Join.'))).toBeUndefined();
  });

  it('a timer of an unknown verb is of another shape', () => {
    expect(parseTimer(P, `${P}.ept.x.${IID}.1.t.fired`)).toBeUndefined();
  });
});

describe('the subject of a confirmation', () => {
  const tail = 'DLV_main.dlv_local-bob-x.2.17.5.1700000000123456789.0';
  const want = {
    stream: 'DLV_main',
    consumer: 'dlv_local-bob-x',
    deliveries: 2,
    seq: 17,
    storedNs: '1700000000123456789',
  };

  it.each([
    ['9 tokens', `$JS.ACK.${tail}`],
    ['11 tokens, with domain and account hash', `$JS.ACK._.Ab3x.${tail}`],
    ['12 tokens, with a random one at the end', `$JS.ACK.hub.Ab3x.${tail}.r4nd`],
  ])('is read in the form of %s', (_, subject) => {
    expect(parseAck(subject)).toEqual(want);
  });

  it.each([
    '$JS.ACK',
    `$JS.NAK.${tail}`,
    `$JS.ACK.a.${tail}`,
    '$JS.ACK.DLV_main..2.17.5.1.0',
    '$JS.ACK..c.2.17.5.1.0',
    '$JS.ACK.DLV_main.*.2.17.5.1.0',
    '$JS.ACK.DLV_main.c..17.5.1.0',
    '$JS.ACK.DLV_main.c.2..5.1.0',
    '$JS.ACK.DLV_main.c.0.17.5.1.0',
    '$JS.ACK.DLV_main.c.2.-1.5.1.0',
    '$JS.ACK.DLV_main.c.2.0x10.5.1.0',
    '$JS.ACK.DLV_main.c.2.1e3.5.1.0',
    '$JS.ACK.DLV_main.c.2.9007199254740993.5.1.0',
    '$JS.ACK.DLV_main.c.2.17.5.x.0',
  ])('is refused where the broker would not have made it: %s', (subject) => {
    expect(parseAck(subject)).toBeUndefined();
  });
});
