import {
  type Acquired,
  type HostFacts,
  type HostVerdict,
  type LeaseNotice,
  LeaseRuntime,
  type LeaseSettings,
  type StoredRow,
} from '@plane3/lease';
import { ManualTime, type MemoryFault, MemoryFence, MemoryLeaseBucket } from '@plane3/lease/memory';

/** One bucket, two fenced streams, one manual time, and daemons that share them. */
export class Rig {
  readonly time = new ManualTime();
  readonly bucket: MemoryLeaseBucket;
  readonly inbox = new MemoryFence();
  readonly dlv = new MemoryFence();
  readonly verdicts = new Map<number, HostVerdict>();
  #pid = 100;

  constructor(o: { ttlMs?: number; markerTtlMs?: number } = {}) {
    this.bucket = new MemoryLeaseBucket(this.time, o);
  }

  daemon(name: string, settings: Partial<LeaseSettings> = {}): Daemon {
    return new Daemon(this, name, this.#pid++, settings);
  }

  /** A row by somebody with a tool. */
  foreignRow(incarnation: string): StoredRow {
    const host = { boot: 'elsewhere', pid: 1, start: '1' };
    const since = this.time.wallMs();
    return { holder: 'local.delivery', incarnation, since, ready: true, host, attemptMs: 0 };
  }
}

export class Daemon {
  readonly name: string;
  readonly pid: number;
  readonly lease: LeaseRuntime;
  readonly log: string[] = [];
  readonly notices: LeaseNotice[] = [];
  fault: MemoryFault | undefined;
  /** Set: the next quiesce waits for it. */
  quiescing: Promise<void> = Promise.resolve();
  armed: () => void = () => {};
  onWrite: () => void = () => {};

  constructor(rig: Rig, name: string, pid: number, settings: Partial<LeaseSettings>) {
    this.name = name;
    this.pid = pid;
    const row = rig.bucket.open(() => this.fault);
    const host: HostFacts = { boot: 'here', pid, start: name };
    this.lease = new LeaseRuntime(
      {
        row: {
          ...row,
          read: () => {
            this.log.push('read');
            return row.read();
          },
          write: (r, expected) => {
            this.log.push('write');
            this.onWrite();
            return row.write(r, expected);
          },
        },
        fences: { inbox: rig.inbox, dlv: rig.dlv },
        hostProbe: {
          self: () => host,
          judge: async (h) =>
            h.boot !== 'here' ? 'unknown' : (rig.verdicts.get(h.pid) ?? 'unknown'),
        },
        host: {
          arm: () => {
            this.log.push('arm');
            this.armed();
          },
          quiesce: async (reason) => {
            this.log.push(`quiesce ${reason}`);
            await this.quiescing;
            this.log.push('quiet');
          },
        },
        clock: rig.time,
        timers: rig.time,
      },
      { holder: 'local.delivery', incarnation: `inc-${name}`, ...settings },
    );
    this.lease.on((n) => this.notices.push(n));
    this.#rig = rig;
  }
  readonly #rig: Rig;

  /** Acquires while time passes as far as it needs, at most `withinMs`. */
  async acquire(o: { waitMs?: number; withinMs?: number } = {}): Promise<Acquired> {
    const asked = this.lease.acquire(o.waitMs === undefined ? {} : { waitMs: o.waitMs });
    return this.during(asked, o.withinMs ?? 60_000);
  }

  /** Runs `f` while time passes. */
  async during<T>(f: Promise<T>, withinMs = 10_000): Promise<T> {
    let over = false;
    const end = (): void => {
      over = true;
    };
    f.then(end, end);
    for (let ms = 0; !over && ms < withinMs; ms += 10) await this.#rig.time.pass(10);
    return f;
  }

  kinds(): string[] {
    return this.notices.map((n) => n.kind).filter((k) => k !== 'renewed' && k !== 'expiry');
  }
}
