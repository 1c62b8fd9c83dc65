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
const BURST = 20_000;
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
lease.on((n) => {
  if (n.kind === 'lost') {
    say(`lost ${n.reason}`);
    lease.release().then(() => process.exit(4));
  }
});

const acquired = await lease.acquire();
if (acquired.kind !== 'held') {
  say(`refused ${acquired.refusal.kind}`);
  process.exit(4);
}
const fenced = await lease.establishFence();
const publisher = new Publisher(link, { windowMax: BURST });
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

// Checks its trust, queues a burst, and is stopped before the socket has taken all of it.
process.on('SIGUSR2', () => {
  if (lease.trusted()) for (let i = 0; i < BURST; i++) write();
  process.kill(process.pid, 'SIGSTOP');
  setInterval(() => say(`counts ${JSON.stringify(counts)}`), 100);
});
say(`ready ${fenced.inbox}`);
