import { fileURLToPath } from 'node:url';
import { LinuxHostProbe } from '@plane3/lease/nats';
import { JetStreamApi } from '@plane3/link';
import { type NatsProc, type Program, spawnDaemon, startNats, startRelay } from '@plane3/testkit';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { BrokerRig, need } from './broker-rig.ts';

const HOLDER = fileURLToPath(new URL('./holder.mjs', import.meta.url));
const TTL_MS = 2_000;
let nats: NatsProc;
const programs: Program[] = [];

beforeAll(async () => {
  nats = await startNats();
});
afterAll(async () => {
  for (const p of programs) await p.sigkill();
  await nats.stop();
});

async function holder(space: string, incarnation: string, url = nats.url): Promise<Program> {
  const env = { NATS_URL: url, SPACE: space, INCARNATION: incarnation };
  const p = spawnDaemon(HOLDER, { env });
  programs.push(p);
  await p.waitFor(/^ready/);
  return p;
}

test('S167: a holder stopped past its TTL stores nothing of its sockets after the new fence', async () => {
  const rig = await BrokerRig.make(nats.url, 'stopped', TTL_MS);
  const relay = await startRelay(nats.url);
  const old = await holder('stopped', 'old', relay.url);
  relay.hold('toServer');
  old.signal('SIGUSR2');
  const rival = await rig.daemon('rival');
  expect(await rival.lease.acquire({ waitMs: 10_000 })).toMatchObject({ kind: 'held' });
  const fenced = await rival.lease.establishFence();
  if (fenced.kind !== 'fenced') throw new Error(JSON.stringify(fenced));
  old.resume();
  relay.release('toServer');
  await old.waitFor(/^lost taken/);
  const counts = await old.waitFor(/^counts/);
  expect(await old.exit()).toMatchObject({ code: 4 });
  // All that lay in its sockets did reach the broker, and was refused.
  expect(counts).toMatch(/"wrong-sequence":[5-9]\d\d\d/);
  const api = new JetStreamApi(rig.admin);
  const last = need(await api.lastOf('INBOX_stopped', 'stopped.dinbox.local.bob.old'));
  expect(last?.seq ?? 0).toBeLessThan(fenced.inbox);
  expect(need(await api.lastOf('INBOX_stopped', 'stopped.dinbox._fence.0'))?.seq).toBe(
    fenced.inbox,
  );
  expect(await rig.row()).toMatchObject({ incarnation: 'rival' });
  expect(old.lines.filter((l) => /^(quiesce|lost)/.test(l))[0]).toMatch(/^quiesce/);
  await rig.close();
  await relay.stop();
});

test('a holder killed on this host is succeeded at once, long before its TTL', async () => {
  const rig = await BrokerRig.make(nats.url, 'killed', 30_000);
  const old = await holder('killed', 'old');
  const hostProbe = new LinuxHostProbe();
  const early = await rig.daemon('early', { hostProbe });
  expect(await early.lease.acquire()).toMatchObject({
    refusal: { kind: 'held-and-alive', incarnation: 'old', host: { pid: old.pid } },
  });
  await old.sigkill();
  const next = await rig.daemon('next', { hostProbe });
  const from = performance.now();
  expect(await next.lease.acquire()).toMatchObject({ kind: 'held', how: 'superseded' });
  expect(performance.now() - from).toBeLessThan(2_000);
  await rig.close();
});
