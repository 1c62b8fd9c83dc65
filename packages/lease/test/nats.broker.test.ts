import { setTimeout as sleep } from 'node:timers/promises';
import type { FencePort } from '@plane3/lease';
import { CONTRACT_TTL_MS, fenceContract, rowContract } from '@plane3/lease/contract';
import { NatsFence, NatsLeaseRow } from '@plane3/lease/nats';
import { type Link, Publisher } from '@plane3/link';
import { HEADER } from '@plane3/protocol';
import { eventually, type NatsProc, startNats } from '@plane3/testkit';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { connect, makeBucket, makeStream, need } from './broker-rig.ts';

let nats: NatsProc;
let admin: Link;
let n = 0;

beforeAll(async () => {
  nats = await startNats();
  admin = await connect(nats.url);
});
afterAll(async () => {
  await admin.close();
  await nats.stop();
});

describe.concurrent('the row port on a broker', () => {
  for (const c of rowContract)
    test(c.name, () =>
      c.run(async () => {
        const bucket = `c${++n}`;
        await makeBucket(admin, bucket, CONTRACT_TTL_MS);
        const links: Link[] = [];
        return {
          open: async () => {
            const link = await connect(nats.url);
            links.push(link);
            return new NatsLeaseRow({ link, bucket, shard: 0 });
          },
          pass: (ms) => sleep(ms),
          until: async (condition) => {
            await eventually(condition, { timeoutMs: 5_000 });
          },
          close: async () => {
            for (const l of links) await l.close();
          },
        };
      }),
    );
});

describe.concurrent('the fence port on a broker', () => {
  for (const c of fenceContract)
    test(c.name, () =>
      c.run(async () => {
        const stream = `F${++n}`;
        const subject = `f${n}._fence.0`;
        await makeStream(admin, stream, `f${n}.>`);
        const links: Link[] = [];
        const open = async (): Promise<Link> => {
          const link = await connect(nats.url);
          links.push(link);
          return link;
        };
        return {
          open: async (): Promise<FencePort> =>
            new NatsFence({ link: await open(), stream, subject }),
          store: async (what, seq) => {
            const o = await new Publisher(admin).publish(
              subject.replace('_fence.0', 'a.b.c'),
              new TextEncoder().encode(what),
              [
                [HEADER.expectSubjectSeq, String(seq)],
                [HEADER.expectSubject, subject],
              ],
            );
            if (o.kind === 'refused') expect(o.reason).toBe('wrong-sequence');
            else need(o);
            return o.kind === 'done';
          },
          close: async () => {
            for (const l of links) await l.close();
          },
        };
      }),
    );
});

test('a mark outlives its stream’s age while the broker runs', async () => {
  const aged = { max_age: 1e9, duplicate_window: 1e9, allow_msg_ttl: true };
  await makeStream(admin, 'AGED', 'aged.>', aged);
  const fence = new NatsFence({ link: admin, stream: 'AGED', subject: 'aged._fence.0' });
  const seq = need(await fence.write({ incarnation: 'a', leaseRevision: 1, at: 1 }, 0));
  need(await new Publisher(admin).publish('aged.x', new Uint8Array(1), undefined));
  const other = new NatsFence({ link: admin, stream: 'AGED', subject: 'aged.x' });
  await eventually(async () => need(await other.read()) === undefined);
  expect(need(await fence.read())?.seq).toBe(seq);
});

test('a mark in a stream without an age outlives a killed broker', async () => {
  await makeStream(admin, 'AGELESS', 'ageless.>', { allow_msg_ttl: true });
  const fence = new NatsFence({ link: admin, stream: 'AGELESS', subject: 'ageless._fence.0' });
  const seq = need(await fence.write({ incarnation: 'a', leaseRevision: 1, at: 1 }, 0));
  await nats.restart();
  await eventually(async () => (await fence.read()).kind === 'done');
  expect(need(await fence.read())?.seq).toBe(seq);
});
