import { jetstreamManager } from '@nats-io/jetstream';
import { Bucket, BucketView, JetStreamApi, openLink, Publisher } from '@plane3/link';
import { startNats } from '@plane3/testkit';
import { expect, it } from 'vitest';

it('smoke', async () => {
  const nats = await startNats();
  try {
    const url = nats.url;
    const link = await openLink({ name: 't', servers: [url], transport: { kind: 'plain' } });
    const jsm = await jetstreamManager(link.nc);
    await jsm.streams.add({
      name: 'KV_b',
      subjects: ['$KV.b.>'],
      max_msgs_per_subject: 1,
      allow_direct: true,
      deny_delete: true,
      allow_rollup_hdrs: true,
    });
    const pub = new Publisher(link);
    const b = new Bucket(link, pub, 'b');
    const view = new BucketView(link, 'b', { parse: (x) => new TextDecoder().decode(x) });
    expect(await view.start()).toEqual({ kind: 'done', value: undefined });
    const r = await b.put('x', new TextEncoder().encode('1'), 0);
    expect(r.kind).toBe('done');
    expect((await b.put('x', new TextEncoder().encode('1'), 0)).kind).toBe('refused');
    await b.remove('x');
    expect((await b.put('x', new TextEncoder().encode('2'), 0)).kind).toBe('done');
    expect(await view.waitFor(3, 1000)).toBe(true);
    expect(view.get('x')?.value).toBe('2');
    expect(view.state).toBe('current');
    const api = new JetStreamApi(link);
    await jsm.streams.add({ name: 'S', subjects: ['s.>'], allow_direct: true });
    const body = new Uint8Array(300);
    const t = performance.now();
    let n = 0;
    for (let i = 0; i < 20000; i++) {
      if (pub.open >= 8192) await pub.room();
      pub.publishWith(`s.${i % 3}`, body, [['Nats-Msg-Id', String(i)]], (o) => {
        if (o.kind === 'done') n++;
      });
    }
    await expect.poll(() => n, { timeout: 10000, interval: 5 }).toBe(20000);
    console.log('publishes/s', Math.round(20000 / ((performance.now() - t) / 1000)));
    const got = await api.batchOf('S', 's.1', 1, 100);
    expect(got.kind === 'done' && got.value.messages.length).toBe(100);
    expect(got.kind === 'done' && got.value.complete).toBe(false);
    console.log(await api.lastOf('S', 's.nope'), await api.streamInfo('NOPE'));
    console.log(
      await api.deleteSeq('S', 5),
      await api.deleteSeq('S', 5),
      await api.purge('S', { subject: 's.1' }),
    );
    view.stop;
    await view.stop();
    pub.close();
    await link.close();
  } finally {
    await nats.stop();
  }
});
