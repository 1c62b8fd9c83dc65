import type { Link } from '@plane3/link';
import type { GrantLine, ProfileArguments } from '@plane3/space';
import { denialKey } from './broker.ts';

export const ARGUMENTS: ProfileArguments = {
  agent: { allowSubscribe: ['team', 'ops.*', 'lab.>'], allowPublish: ['team'], role: 'reviewer' },
  delivery: {},
  'delivery-vault': {},
  operator: {},
  'operator-vault': {},
  'endpoint-author': { endpoint: 'flow', instanceId: 'i'.repeat(26) },
  'record-writer': { endpoint: 'flow' },
  provisioner: {},
  'provisioner-vault': {},
  deprovisioner: {},
  manager: {},
  'manager-vault': {},
  observer: {},
  'membership-observer': {},
  'connection-evictor': {},
  'membership-rw': {},
  'claims-pusher': {},
};

export interface Attempt {
  readonly direction: 'pub' | 'sub';
  readonly subject: string;
  readonly queue?: string;
}

export const attemptKey = (a: Attempt): string =>
  `${a.direction} ${a.subject}${a.queue === undefined ? '' : ` ${a.queue}`}`;

/** What the broker does: token by token, taking a wildcard in the attempt for a plain token. */
function matches(allowed: string, attempt: string): boolean {
  const a = allowed.split('.');
  const b = attempt.split('.');
  for (let i = 0; i < a.length; i++) {
    if (a[i] === '>') return b.length > i;
    if (b[i] === undefined || (a[i] !== '*' && a[i] !== b[i])) return false;
  }
  return a.length === b.length;
}

/** Whether the table allows an attempt. */
export const permitted = (lines: readonly GrantLine[], a: Attempt): boolean => {
  const own = lines.filter((l) => l.direction === a.direction && matches(l.subject, a.subject));
  const allowed = own.some(
    (l) => l.effect === 'allow' && (l.queue === undefined || l.queue === a.queue),
  );
  return allowed && !own.some((l) => l.effect === 'deny');
};

/** A publish needs a subject without wildcards. */
export const attemptOf = (l: GrantLine): Attempt => ({
  direction: l.direction,
  subject:
    l.direction === 'pub'
      ? l.subject.replaceAll('.*', '.probe').replace(/\.>$/, '.probe.probe')
      : l.subject,
  ...(l.queue === undefined ? {} : { queue: l.queue }),
});

/** Bounded by the flushes: a refusal comes before the answer to the ping that follows it. */
const SETTLE_MS = 30;

/** Tries all of them and answers which the broker refused. The body is no JSON: nothing acts on it. */
export async function refusedOf(link: Link, attempts: readonly Attempt[]): Promise<Set<string>> {
  const denied = new Set<string>();
  const stop = link.onDenied((d) => denied.add(denialKey(d)));
  for (const a of attempts) {
    if (a.direction === 'pub') link.publish(a.subject, new TextEncoder().encode('probe'));
    else
      link.nc.subscribe(a.subject, {
        callback: () => undefined,
        ...(a.queue === undefined ? {} : { queue: a.queue }),
      });
  }
  await link.flush();
  await new Promise((resolve) => setTimeout(resolve, SETTLE_MS));
  await link.flush();
  stop();
  return denied;
}
