// A daemon that only holds the lease and writes behind its fence; run by node itself.
import { LeaseRuntime } from '@plane3/lease';
import {
  LinuxHostProbe,
  NatsFence,
  NatsLeaseRow,
  systemClock,
  systemTimers,
} from '@plane3/lease/nats';
import { openLink, Publisher } from '@plane3/link';

const { NATS_URL, SPACE, INCARNATION } = process.env;
const BURST = 5_000;
const say = (line) => process.stdout.write(`${line}\n`);

const link = await openLink({
  name: INCARNATION,
  servers: [NATS_URL],
  transport: { kind: 'plain' },
});
const fence = (stream, kind) =>
  new NatsFence({ link, stream, subject: `${SPACE}.${kind}._fence.0` });
let writing = false;
const lease = new LeaseRuntime(
  {
    row: new NatsLeaseRow({ link, bucket: `lease_${SPACE}`, shard: 0 }),
    fences: { inbox: fence(`INBOX_${SPACE}`, 'dinbox'), dlv: fence(`DLV_${SPACE}`, 'dlv') },
    hostProbe: new LinuxHostProbe(),
    host: {
      arm: () => {},
      quiesce: async (reason) => {
        writing = false;
        say(`quiesce ${reason}`);
      },
    },
    clock: systemClock,
    timers: systemTimers,
  },
  { holder: 'local.delivery', incarnation: INCARNATION },
);
const acquired = await lease.acquire();
if (acquired.kind !== 'held') {
  say(`refused ${acquired.refusal.kind}`);
  process.exit(4);
}
const fenced = await lease.establishFence();
const publisher = new Publisher(link, { windowMax: BURST, timeoutMs: 60_000 });
const headers = [
  ['Nats-Expected-Last-Subject-Sequence', String(fenced.inbox)],
  ['Nats-Expected-Last-Subject-Sequence-Subject', `${SPACE}.dinbox._fence.0`],
];
const counts = { stored: 0, 'wrong-sequence': 0 };
const write = () =>
  publisher.publishWith(
    `${SPACE}.dinbox.local.bob.${INCARNATION}`,
    Buffer.alloc(300),
    headers,
    (o) => {
      const what = o.kind === 'done' ? 'stored' : o.kind === 'refused' ? o.reason : 'unknown';
      counts[what] = (counts[what] ?? 0) + 1;
    },
  );
writing = true;
setInterval(() => {
  if (writing && lease.trusted()) write();
}, 5);
await lease.markReady();

// Once it has lost the lease it waits for the answer to all that was under way, and tells.
lease.on((n) => {
  if (n.kind !== 'lost') return;
  say(`lost ${n.reason}`);
  setInterval(async () => {
    if (publisher.open > 0) return;
    await lease.release();
    say(`counts ${JSON.stringify(counts)}`);
    process.exit(4);
  }, 10);
});

// Checks its trust, queues a burst, and is stopped before the broker has seen it.
process.on('SIGUSR2', () => {
  if (lease.trusted()) for (let i = 0; i < BURST; i++) write();
  process.kill(process.pid, 'SIGSTOP');
});
say(`ready ${fenced.inbox}`);
