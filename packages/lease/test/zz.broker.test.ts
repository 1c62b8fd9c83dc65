import { JetStreamApi, Publisher } from '@plane3/link';
import { eventually, startNats } from '@plane3/testkit';
import { setTimeout as sleep } from 'node:timers/promises';
import { test } from 'vitest';
import { connect, makeStream, need } from './broker-rig.ts';

for (const [label, more, restart] of [
  ['kill', {}, 'SIGKILL'],
  ['term', {}, 'SIGTERM'],
  ['kill+marker', { subject_delete_marker_ttl: 1e9, allow_rollup_hdrs: true }, 'SIGKILL'],
  ['no restart', {}, undefined],
] as const)
  test(label, async () => {
    const nats = await startNats();
    const admin = await connect(nats.url);
    await makeStream(admin, 'AGED', 'aged.>', { max_age: 1e9, duplicate_window: 1e9, allow_msg_ttl: true, ...more });
    const p = new Publisher(admin);
    const api = new JetStreamApi(admin);
    need(await p.publish('aged.fence', new Uint8Array(1), [['Nats-TTL', 'never']]));
    need(await p.publish('aged.long', new Uint8Array(1), [['Nats-TTL', '1h']]));
    need(await p.publish('aged.plain', new Uint8Array(1), undefined));
    const look = async (when: string) => {
      const g = async (s: string) => need(await api.lastOf('AGED', s))?.seq ?? '-';
      console.log(label, when, 'never', await g('aged.fence'), '1h', await g('aged.long'), 'plain', await g('aged.plain'));
    };
    await look('start');
    await sleep(2500);
    await look('2.5s');
    await sleep(3000);
    await look('5.5s');
    if (restart) {
      await nats.kill(restart);
      await nats.restart();
      await eventually(async () => (await api.lastOf('AGED', 'aged.x')).kind === 'done');
      await look('restarted');
      await sleep(2000);
      await look('restarted+2');
    }
    await admin.close();
    await nats.stop();
  });
