import { createHash } from 'node:crypto';
import { contractArtifacts, DELIVERY_COMMANDS, digestHex } from '@plane3/endpoint';
import { publishContracts } from '@plane3/endpoint/nats';
import { type Link, Publisher } from '@plane3/link';
import { type NatsProc, startNats } from '@plane3/testkit';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openTestLink } from './broker.ts';
import { PREFIX } from './requests.ts';

let broker: NatsProc;
let link: Link;
beforeAll(async () => {
  broker = await startNats();
  link = await openTestLink(broker.url, 'server');
  const config = {
    name: 'EPC_main',
    subjects: [`${PREFIX}.epc.*`],
    storage: 'file',
    allow_direct: true,
  };
  await link.nc.request('$JS.API.STREAM.CREATE.EPC_main', JSON.stringify(config));
});
afterAll(async () => {
  await link.close();
  await broker.stop();
});

test('every artifact is published once under the hash of its own bytes', async () => {
  const publisher = new Publisher(link);
  const all = contractArtifacts(DELIVERY_COMMANDS);
  const first = await publishContracts({ publisher, prefix: PREFIX });
  expect(first).toEqual({ kind: 'done', value: { created: all.length, present: 0 } });
  const again = await publishContracts({ publisher, prefix: PREFIX });
  expect(again).toEqual({ kind: 'done', value: { created: 0, present: all.length } });
  publisher.close();
  for (const { digest } of all) {
    const m = await link.nc.request(
      `$JS.API.DIRECT.GET.EPC_main.${PREFIX}.epc.${digestHex(digest)}`,
    );
    expect(createHash('sha256').update(m.data).digest('hex')).toBe(digestHex(digest));
  }
});
