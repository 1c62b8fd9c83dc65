import { judge, REQUEST_BYTES_MAX } from '@plane3/schedule-writer';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { body, IID, PREFIX, request, subject } from './support/facts.ts';

const reasonOf = (o: Partial<ReturnType<typeof request>>): string => {
  const j = judge(PREFIX, request('t1', 1, o));
  return j.kind === 'refuse' ? j.reason : j.kind;
};
const bytes = (x: unknown): Uint8Array => new TextEncoder().encode(JSON.stringify(x));

describe('a request is judged from itself alone', () => {
  it('takes one that says what its subject says', () => {
    expect(judge(PREFIX, request('t1', 3))).toMatchObject({
      kind: 'request',
      timer: { endpoint: 'flow', instanceId: IID, epoch: '1', timerId: 't1', verb: 'schedule' },
      request: { timerId: 't1', generation: 3 },
    });
  });

  it.each([
    subject('t1', 'armed'),
    subject('t1', 'fire'),
    subject('t1', 'schedule', 'cotal.other'),
    `${PREFIX}.ept.flow.short.1.t1.schedule`,
    `${PREFIX}.ept.flow.${IID}.1.t1.schedule.more`,
    `${PREFIX}.chat.local.bob.general`,
    '',
  ])('refuses the subject %s', (s) => {
    expect(reasonOf({ subject: s })).toBe('subject');
  });

  it.each([
    'Nats-Schedule',
    'Nats-Schedule-Target',
    'Nats-Schedule-Rollup',
    'Nats-Scheduler',
    'Nats-Schedule-Source',
    'Nats-Schedule-TTL',
    'nats-schedule',
    'NATS-SCHEDULER',
  ])('refuses the header %s of the broker’s scheduler', (name) => {
    expect(reasonOf({ headerNames: ['X', name] })).toBe('schedule-header');
  });

  it.each(['Nats-Stream', 'Nats-Subject', 'nats-sequence', 'Nats-Time-Stamp'])(
    'refuses %s: the broker made that message out of an answer',
    (name) => {
      expect(reasonOf({ headerNames: [name] })).toBe('broker-header');
    },
  );

  it('lets other headers be', () => {
    expect(reasonOf({ headerNames: ['Nats-Msg-Id', 'Traceparent'] })).toBe('request');
  });

  it.each([
    ['no JSON', new TextEncoder().encode('{')],
    ['an acknowledgement of the broker', bytes({ stream: 'EPT_REQ_main', seq: 7 })],
    ['a later version', body('t1', 1, { v: 2 })],
    ['generation 0', body('t1', 0)],
    ['half a generation', body('t1', 1.5)],
    ['no deadline', bytes({ v: 1, timerId: 't1', generation: 1 })],
    ['an unknown field', body('t1', 1, { target: 'elsewhere' })],
    ['too many bytes', body('t1', 1, { pad: 'x'.repeat(REQUEST_BYTES_MAX) })],
    ['nothing', new Uint8Array()],
  ])('refuses a body with %s', (_, b) => {
    expect(reasonOf({ body: b })).toBe('body');
  });

  it('refuses a body that names another timer', () => {
    expect(reasonOf({ body: body('t2') })).toBe('timer-id');
  });

  it('never throws and never lets a schedule header through', () => {
    const facts = fc.record({
      subject: fc.oneof(fc.string(), fc.constant(subject('t1'))),
      headerNames: fc.array(fc.oneof(fc.string(), fc.constant('Nats-Schedule-Target'))),
      body: fc.oneof(fc.uint8Array(), fc.constant(body('t1')), fc.json().map(bytes)),
    });
    fc.assert(
      fc.property(facts, (f) => {
        const j = judge(PREFIX, f);
        if (j.kind === 'refuse') return;
        expect(f.subject).toBe(subject('t1'));
        expect(f.headerNames.some((h) => /^nats-schedul/i.test(h))).toBe(false);
      }),
      { numRuns: 200 },
    );
  });
});
