import {
  Caller,
  callEndpoint,
  type EndpointServer,
  type ServeOptions,
  serve,
} from '@plane3/endpoint/nats';
import type { Link } from '@plane3/link';
import { type Lifecycle, lifecycleKey, replySubject } from '@plane3/protocol';
import { type NatsProc, startNats } from '@plane3/testkit';
import fc from 'fast-check';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { openTestLink } from './broker.ts';
import { ALICE, BOB, EPOCH, INSTANCE, nonce, PREFIX, request, subjectOf } from './requests.ts';

let broker: NatsProc;
let serverLink: Link;
let clientLink: Link;
beforeAll(async () => {
  broker = await startNats();
  serverLink = await openTestLink(broker.url, 'server');
  clientLink = await openTestLink(broker.url, 'client');
});
afterAll(async () => {
  await clientLink.close();
  await serverLink.close();
  await broker.stop();
});

const closers: (() => void | Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

const joined = {
  durable: true,
  generation: 3,
  joinCursor: 10,
  cursorSource: 'client',
} as const;
const health = { state: 'serving', incarnation: 'x', since: 1, observedAt: 2 };

async function serving(over: Partial<ServeOptions> = {}): Promise<EndpointServer> {
  const served = await serve({
    link: serverLink,
    prefix: PREFIX,
    endpoint: 'delivery',
    instanceId: INSTANCE,
    epoch: EPOCH,
    commands: {
      join: () => Promise.resolve({ ok: true, data: joined }),
      health: () => Promise.resolve({ ok: true, data: health }),
    },
    ...over,
  });
  if (served.kind !== 'done') throw new Error('not served');
  closers.push(() => served.value.stop());
  return served.value;
}

async function calling(caller: Lifecycle = ALICE, link = clientLink): Promise<Caller> {
  const opened = await Caller.open({ link, prefix: PREFIX, caller });
  if (opened.kind !== 'done') throw new Error('not opened');
  closers.push(() => opened.value.close());
  return opened.value;
}

interface RawReply {
  readonly subject: string;
  readonly body: { ok: boolean; error?: { code: string; outcome: string } };
}

/** Sends bytes as anybody might and gives what came on the reply rails of everybody. */
async function rawly(): Promise<{
  readonly replies: RawReply[];
  send(subject: string, body: unknown, o?: { reply?: string }): void;
}> {
  const replies: RawReply[] = [];
  const opened = await clientLink.subscribe(`${PREFIX}.ep.reply.>`, (m) => {
    replies.push({ subject: m.subject, body: JSON.parse(new TextDecoder().decode(m.data)) });
  });
  if (opened.kind !== 'done') throw new Error('no rail');
  closers.push(() => opened.value.unsubscribe());
  return {
    replies,
    send: (subject, body, o) =>
      clientLink.publish(
        subject,
        body instanceof Uint8Array ? body : new TextEncoder().encode(JSON.stringify(body)),
        o,
      ),
  };
}

describe('a served endpoint', () => {
  test('answers on the class rail and on its instance rail, with its instance and epoch', async () => {
    await serving();
    const caller = await calling();
    for (const o of [{}, { instanceId: INSTANCE }])
      expect(await caller.call('join', { channel: 'team' }, o)).toEqual({
        ok: true,
        data: joined,
        instanceId: INSTANCE,
        epoch: EPOCH,
      });
  });

  test('describe needs no digests and publishes those that calls are judged by', async () => {
    await serving({ serveKey: 'k' });
    const raw = await rawly();
    raw.send(
      subjectOf('describe'),
      request('describe', undefined, { op: { endpoint: 'delivery', command: 'describe' } }),
    );
    await vi.waitFor(() => expect(raw.replies).toHaveLength(1));
    expect(raw.replies[0]?.body).toMatchObject({ ok: true, data: { epoch: EPOCH, serveKey: 'k' } });
  });

  test('the handler gets the caller from the subject', async () => {
    const seen: string[] = [];
    await serving({
      commands: {
        join: (c) => {
          seen.push(lifecycleKey(c.caller));
          return Promise.resolve({ ok: true, data: joined });
        },
      },
    });
    await (await calling(BOB)).call('join', { channel: 'team' });
    expect(seen).toEqual([lifecycleKey(BOB)]);
  });

  test('hostile requests are refused on the rail that their own subject names, before any effect', async () => {
    let effects = 0;
    const server = await serving({
      commands: {
        join: () => {
          effects++;
          return Promise.resolve({ ok: true, data: joined });
        },
      },
    });
    const raw = await rawly();
    const join = (over = {}) => request('join', { channel: 'team' }, over);
    const op = { ...join().op, inputDigest: `sha256:${'0'.repeat(64)}` };
    const deep = new TextEncoder().encode('['.repeat(50_000));
    const huge = new Uint8Array(200_000).fill(0x20);
    const cases: readonly (readonly [string, unknown])[] = [
      ['bad-request', deep],
      ['bad-request', huge],
      ['bad-request', { stream: 'CHAT_main', seq: 4 }],
      ['contract-mismatch', join({ op })],
      ['sender-mismatch', join({ from: { id: 'local.bob', name: 'bob' } })],
      ['expired', join({ bind: { instanceId: INSTANCE, epoch: '1' } })],
      ['failed-precondition', join({ bind: { instanceId: 'other', epoch: EPOCH } })],
      ['class-mismatch', join({ class: 'durable' })],
    ];
    const foreign = 'cotal.main.dlv.local.bob.x';
    const leaked: string[] = [];
    const spy = await clientLink.subscribe(foreign, () => leaked.push(foreign));
    for (const [, body] of cases) raw.send(subjectOf('join'), body, { reply: foreign });
    await vi.waitFor(() => expect(raw.replies).toHaveLength(cases.length));
    expect(raw.replies.map((r) => r.body.error?.code)).toEqual(cases.map(([code]) => code));
    expect(raw.replies.every((r) => r.body.error?.outcome === 'not-executed')).toBe(true);
    expect(effects).toBe(0);
    expect(leaked).toEqual([]);
    expect(server.stats().counts.refused).toBe(cases.length);
    if (spy.kind === 'done') spy.value.unsubscribe();
  });

  test('subjects of another arity and other endpoints never reach a handler', async () => {
    const server = await serving();
    const raw = await rawly();
    const body = request('join', { channel: 'team' });
    raw.send(`${subjectOf('join')}.x`, body);
    raw.send(subjectOf('join').split('.').slice(0, -1).join('.'), body);
    raw.send(subjectOf('join').replace(ALICE.owner, 'UAQG'), body);
    raw.send(subjectOf('join', ALICE, 'short'), body);
    expect(await (await calling()).call('health', {})).toMatchObject({ ok: true });
    expect(server.stats().counts).toMatchObject({ executed: 1, refused: 0, ignored: 2 });
    expect(raw.replies).toHaveLength(1);
  });

  test('a replayed nonce is not executed twice', async () => {
    let effects = 0;
    await serving({
      commands: {
        join: () => {
          effects++;
          return Promise.resolve({ ok: true, data: joined });
        },
      },
    });
    const raw = await rawly();
    const subject = subjectOf('join');
    for (let i = 0; i < 3; i++) raw.send(subject, request('join', { channel: 'team' }));
    await vi.waitFor(() => expect(raw.replies).toHaveLength(3));
    expect(effects).toBe(1);
    expect(raw.replies.filter((r) => r.body.error?.code === 'already-exists')).toHaveLength(2);
  });

  test('thousands of generated requests on the rail leave it serving', async () => {
    const server = await serving();
    const raw = await rawly();
    const body = fc.oneof(
      fc.uint8Array({ maxLength: 300 }),
      fc.json().map((t) => new TextEncoder().encode(t)),
      fc
        .dictionary(
          fc.constantFrom('v', 'op', 'args', 'from', 'bind', 'deadlineMs', 'class', '__proto__'),
          fc.jsonValue({ maxDepth: 3 }),
          { maxKeys: 3 },
        )
        .map((over) => ({ ...request('health', {}), ...over })),
    );
    const bodies = fc.sample(body, 2_000);
    for (const b of bodies) raw.send(subjectOf('health'), b);
    await vi.waitFor(() => expect(server.stats().counts.received).toBe(bodies.length), 10_000);
    expect(await (await calling(BOB)).call('health', {})).toMatchObject({ ok: true });
    const { counts } = server.stats();
    expect(counts.refused + counts.executed + counts.exhausted).toBe(bodies.length + 1);
  });

  test('a handler that throws, or gives what its schema forbids, costs one answer and no more', async () => {
    const faults: string[] = [];
    await serving({
      commands: {
        join: () => {
          throw new Error('boom');
        },
        leave: () => Promise.reject(new Error('boom')),
        list: () => Promise.resolve({ ok: true, data: { secret: 1 } as never }),
        health: () => Promise.resolve({ ok: true, data: health }),
      },
      onFault: (f) => {
        faults.push(f.kind);
        throw new Error('a listener that throws');
      },
    });
    const caller = await calling();
    const internal = { ok: false, code: 'internal', outcome: 'unknown' };
    expect(await caller.call('join', { channel: 'team' })).toMatchObject(internal);
    expect(await caller.call('leave', { channel: 'team' })).toMatchObject(internal);
    expect(await caller.call('list', {})).toMatchObject({
      ok: false,
      code: 'contract-invalid',
      outcome: 'executed',
    });
    expect(await caller.call('health', {})).toMatchObject({ ok: true });
    expect(faults).toEqual(['handler-threw', 'handler-threw', 'result-invalid']);
  });

  test('a command without a handler is unimplemented', async () => {
    await serving();
    expect(await (await calling()).call('settled', { bucket: 'b', revision: 1 })).toMatchObject({
      code: 'unimplemented',
      outcome: 'not-executed',
    });
  });

  test('without trust there is no answer: not to a call, not to a refusal, not after the work', async () => {
    let trusted = false;
    let release: (() => void) | undefined;
    const server = await serving({
      gate: () => trusted,
      commands: {
        health: () => Promise.resolve({ ok: true, data: health }),
        join: () =>
          new Promise((ok) => {
            release = () => ok({ ok: true, data: joined });
          }),
      },
    });
    const raw = await rawly();
    raw.send(subjectOf('health'), request('health', {}));
    raw.send(subjectOf('health'), {});
    await vi.waitFor(() => expect(server.stats().counts.untrusted).toBe(2));
    trusted = true;
    raw.send(subjectOf('join'), request('join', { channel: 'team' }));
    await vi.waitFor(() => expect(release).toBeDefined());
    trusted = false;
    release?.();
    await vi.waitFor(() => expect(server.stats().counts.untrusted).toBe(3));
    expect(raw.replies).toEqual([]);
  });

  test('who expects no reply gets none', async () => {
    const server = await serving();
    const raw = await rawly();
    raw.send(subjectOf('health'), request('health', {}, { replyExpected: false }));
    await vi.waitFor(() => expect(server.stats().counts.executed).toBe(1));
    raw.send(subjectOf('health'), request('health', {}));
    await vi.waitFor(() => expect(raw.replies).toHaveLength(1));
  });

  test('work is bounded in all and per caller, and what does not fit is told at once', async () => {
    const waiting: (() => void)[] = [];
    const server = await serving({
      limits: { runningMax: 2, waitingMax: 2, perCallerMax: 3 },
      commands: {
        health: () =>
          new Promise((ok) => {
            waiting.push(() => ok({ ok: true, data: health }));
          }),
      },
    });
    const alice = await calling();
    const bob = await calling(BOB);
    const calls = [1, 2, 3, 4].map(() => alice.call('health', {}));
    const exhausted = { code: 'resource-exhausted', outcome: 'not-executed' };
    expect(await calls[3]).toMatchObject(exhausted);
    const bobs = bob.call('health', {});
    await vi.waitFor(() => expect(server.stats().waiting).toBe(2));
    expect(await bob.call('health', {})).toMatchObject(exhausted);
    await vi.waitFor(() => {
      for (const release of waiting.splice(0)) release();
      expect(server.stats()).toMatchObject({ running: 0, waiting: 0 });
    });
    expect(await Promise.all([...calls.slice(0, 3), bobs])).toMatchObject([
      { ok: true },
      { ok: true },
      { ok: true },
      { ok: true },
    ]);
  });

  test('a handler past its deadline is aborted and answered for', async () => {
    let aborted = false;
    await serving({
      commands: {
        health: (c) =>
          new Promise((ok) => {
            c.signal.addEventListener('abort', () => {
              aborted = true;
              ok({ ok: true, data: health });
            });
          }),
      },
    });
    const raw = await rawly();
    raw.send(subjectOf('health'), request('health', {}, { deadlineMs: 50 }));
    await vi.waitFor(() => expect(raw.replies).toHaveLength(1));
    expect(raw.replies[0]?.body.error).toMatchObject({
      code: 'deadline-exceeded',
      outcome: 'unknown',
    });
    expect(aborted).toBe(true);
  });

  test('an answer larger than the broker takes is told, not lost', async () => {
    await serving({
      commands: {
        list: () =>
          Promise.resolve({
            ok: true,
            data: {
              memberships: [],
              channels: [],
              gaps: [{ channel: 'c'.repeat(4_000), from: 0, to: 1, reason: 'r' }].concat(
                Array.from({ length: 400 }, () => ({
                  channel: 'c'.repeat(4_000),
                  from: 0,
                  to: 1,
                  reason: 'r',
                })),
              ),
            },
          }),
      },
    });
    expect(await (await calling()).call('list', {})).toMatchObject({
      code: 'resource-exhausted',
      outcome: 'executed',
    });
  });
});

describe('a caller', () => {
  test('learns at once that nobody serves', async () => {
    const begin = performance.now();
    expect(await (await calling()).call('health', {}, { deadlineMs: 20_000 })).toMatchObject({
      code: 'unavailable',
      outcome: 'not-executed',
    });
    expect(performance.now() - begin).toBeLessThan(5_000);
  });

  test('says unknown when the deadline passes without an answer', async () => {
    await serving({ gate: () => false });
    expect(await (await calling()).call('health', {}, { deadlineMs: 60 })).toMatchObject({
      code: 'deadline-exceeded',
      outcome: 'unknown',
    });
  });

  test('never sends what its schema forbids', async () => {
    expect(await (await calling()).call('join', { channel: 7 } as never)).toMatchObject({
      code: 'contract-invalid',
      outcome: 'not-executed',
    });
  });

  test('takes no answer by transport reply, on another rail, of another nonce, or malformed', async () => {
    const caller = await calling();
    const good = { v: 1, id: 'x', ok: true, data: health };
    const opened = await serverLink.subscribe(`${PREFIX}.ep.one.delivery.*.*.*.*.*`, (m) => {
      const n = m.subject.split('.').at(-1) as string;
      const say = (subject: string, body: unknown) =>
        serverLink.publish(subject, new TextEncoder().encode(JSON.stringify(body)));
      const reply = (o: object) =>
        replySubject(PREFIX, {
          endpoint: 'delivery',
          instanceId: INSTANCE,
          epoch: EPOCH,
          caller: ALICE,
          nonce: n,
          ...o,
        });
      say(m.reply as string, { ...good, id: n });
      say(reply({ nonce: nonce() }), { ...good, id: n });
      say(reply({ endpoint: 'manager' }), { ...good, id: n });
      say(reply({ caller: BOB }), { ...good, id: n });
      say(reply({}), { ...good, id: 'other' });
      say(reply({}), { ...good, id: n, extra: 1 });
      say(reply({}), { ...good, id: n, ok: false });
      say(reply({}), { ...good, id: n, data: { ...health, state: 'true' } });
    });
    if (opened.kind !== 'done') throw new Error('no rail');
    closers.push(() => opened.value.unsubscribe());
    expect(await caller.call('health', {})).toMatchObject({ ok: true, data: { state: 'true' } });
    expect(caller.stats().ignored).toMatchObject({ unasked: 3, malformed: 3 });
  });

  test('tells a result that its schema forbids from a good one', async () => {
    const caller = await calling();
    const opened = await serverLink.subscribe(`${PREFIX}.ep.one.delivery.*.*.*.*.*`, (m) => {
      const n = m.subject.split('.').at(-1) as string;
      const to = { endpoint: 'delivery', instanceId: INSTANCE, epoch: EPOCH, caller: ALICE };
      serverLink.publish(
        replySubject(PREFIX, { ...to, nonce: n }),
        new TextEncoder().encode(JSON.stringify({ v: 1, id: n, ok: true, data: { state: 1 } })),
      );
    });
    if (opened.kind !== 'done') throw new Error('no rail');
    closers.push(() => opened.value.unsubscribe());
    expect(await caller.call('health', {})).toMatchObject({
      code: 'contract-invalid',
      outcome: 'executed',
    });
  });

  test('follows a new epoch only once health comes from it', async () => {
    const first = await serving();
    const caller = await calling();
    await caller.call('health', {});
    expect(caller.pinned).toEqual({ instanceId: INSTANCE, epoch: EPOCH });
    await first.stop();
    await serving({ epoch: '8' });
    expect(await caller.call('join', { channel: 'team' })).toMatchObject({ ok: true, epoch: '8' });
    expect(caller.pinned).toEqual({ instanceId: INSTANCE, epoch: '8' });
  });

  test('bound to an epoch that is gone is told which one serves', async () => {
    await serving();
    const bind = { instanceId: INSTANCE, epoch: '6' };
    expect(await (await calling()).call('health', {}, { bind })).toMatchObject({
      code: 'expired',
      details: [{ kind: 'ai.cotal.ep.bind-refused', epoch: EPOCH }],
    });
  });

  test('one call on a caller of its own leaves nothing behind', async () => {
    await serving();
    const answer = await callEndpoint({
      link: clientLink,
      prefix: PREFIX,
      caller: ALICE,
      command: 'health',
      args: {},
      deadlineMs: 5_000,
    });
    expect(answer).toMatchObject({ ok: true, data: health });
  });
});
