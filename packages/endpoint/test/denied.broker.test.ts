import { Caller, serve } from '@plane3/endpoint/nats';
import type { Link } from '@plane3/link';
import { lifecycleKey } from '@plane3/protocol';
import { type NatsProc, startNats } from '@plane3/testkit';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openTestLink, startGuarded } from './broker.ts';
import { ALICE, BOB, EPOCH, INSTANCE, PREFIX } from './requests.ts';

let broker: NatsProc;
let client: Link;
beforeAll(async () => {
  broker = await startGuarded({
    publish: [`${PREFIX}.ep.one.delivery.health.${lifecycleKey(ALICE)}.*`],
    subscribe: [`${PREFIX}.ep.reply.*.*.*.${lifecycleKey(ALICE)}.*`],
  });
  client = await openTestLink(broker.url, 'client');
});
afterAll(async () => {
  await client.close();
  await broker.stop();
});

test('a caller without the grant learns the denied subject well before its deadline', async () => {
  const opened = await Caller.open({ link: client, prefix: PREFIX, caller: ALICE });
  if (opened.kind !== 'done') throw new Error('not opened');
  const begin = performance.now();
  const answer = await opened.value.call('join', { channel: 'team' }, { deadlineMs: 20_000 });
  expect(performance.now() - begin).toBeLessThan(5_000);
  expect(answer).toMatchObject({ code: 'permission-denied', outcome: 'not-executed' });
  if (answer.ok) throw new Error('executed');
  expect(answer.message).toMatch(/^permission denied: cotal\.main\.ep\.one\.delivery\.join\./);
  // A granted command on the same connection is not harmed.
  expect(await opened.value.call('health', {})).toMatchObject({ code: 'unavailable' });
  opened.value.close();
});

test('the reply rail of somebody else cannot be opened', async () => {
  const opened = await Caller.open({ link: client, prefix: PREFIX, caller: BOB });
  expect(opened).toMatchObject({ kind: 'refused', reason: 'permission-denied' });
});

test('serving without the right to a rail is refused, not silent', async () => {
  const served = await serve({
    link: client,
    prefix: PREFIX,
    endpoint: 'delivery',
    instanceId: INSTANCE,
    epoch: EPOCH,
    commands: {},
  });
  expect(served).toMatchObject({ kind: 'refused', reason: 'permission-denied' });
});

test('a call while the broker is away is refused at once, and one in flight is unknown', async () => {
  const own = await startNats();
  const server = await openTestLink(own.url, 'server');
  const link = await openTestLink(own.url, 'client');
  let arrived = (): void => undefined;
  const inHandler = new Promise<void>((ok) => {
    arrived = ok;
  });
  await serve({
    link: server,
    prefix: PREFIX,
    endpoint: 'delivery',
    instanceId: INSTANCE,
    epoch: EPOCH,
    commands: {
      health: () => {
        arrived();
        return new Promise(() => undefined);
      },
    },
  });
  const opened = await Caller.open({ link, prefix: PREFIX, caller: ALICE });
  if (opened.kind !== 'done') throw new Error('not opened');
  const flying = opened.value.call('health', {}, { deadlineMs: 25_000 });
  await inHandler;
  await own.kill();
  expect(await flying).toMatchObject({ code: 'unavailable', outcome: 'unknown' });
  const refused = await opened.value.call('health', {}, { deadlineMs: 25_000 });
  expect(refused).toMatchObject({ code: 'unavailable', outcome: 'not-executed' });
  opened.value.close();
  await link.close();
  await server.close();
  await own.stop();
});
