import { ERRORS } from '@plane3/protocol';
import { Command, InvalidArgumentError, Option } from 'commander';
import { addAgent, listAgents, renewAgent, retireAgent, setAgent } from './agent-verbs.ts';
import { channelList, channelSet } from './channel-verbs.ts';
import { type Context, type MeshContext, openContext, openMeshContext } from './context.ts';
import { down } from './down.ts';
import { runManager } from './manager.ts';
import { inbox, join, leave, post } from './member-verbs.ts';
import { members, pending } from './operator-verbs.ts';
import { Output } from './output.ts';
import { status } from './status.ts';
import { timersArm, timersList } from './timer-verbs.ts';
import { up } from './up.ts';

interface Globals {
  readonly space?: string;
  readonly root?: string;
  readonly json?: boolean;
  readonly quiet?: boolean;
}

const list = (text: string, before: string[] = []): string[] => [
  ...before,
  ...text
    .split(',')
    .map((s) => s.trim())
    .filter((s) => s !== ''),
];

const whole =
  (min: number, max = Number.MAX_SAFE_INTEGER) =>
  (text: string): number => {
    const n = Number(text);
    if (!Number.isSafeInteger(n) || n < min || n > max)
      throw new InvalidArgumentError(
        max === Number.MAX_SAFE_INTEGER
          ? `not a whole number from ${min} on`
          : `not a whole number from ${min} to ${max}`,
      );
    return n;
  };

const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 };

/** `3s`, `250ms`, `2m`; a bare number is seconds. */
const duration = (text: string): number => {
  const m = /^(\d+(?:\.\d+)?)(ms|s|m|h)?$/.exec(text);
  if (m === null) throw new InvalidArgumentError('not a duration such as 3s, 250ms or 2m');
  return Math.round(Number(m[1]) * (UNITS[m[2] ?? 's'] as number));
};

/** Every verb sets the exit code by what it answers; what it throws is reported by the caller. */
export function program(setExit: (code: number) => void): Command {
  const p = new Command('cotal').description('Operate a plane3 mesh.').exitOverride();
  const verb = (parent: Command, usage: string, about: string): Command =>
    parent
      .command(usage)
      .description(about)
      .option('--space <name>', 'which space (default: the only one)')
      .option('--root <dir>', 'folder that holds .cotal (default: the nearest one)')
      .option('--json', 'machine-readable output')
      .option('--quiet', 'no messages on standard error');
  const context = (o: Globals): Context =>
    openContext(o, new Output({ json: o.json === true, quiet: o.quiet === true }));
  const mesh = (o: Globals): MeshContext => openMeshContext(context(o));
  lifecycleVerbs(verb, p, context, mesh, setExit);
  adminVerbs(verb, p, mesh);
  memberVerbs(verb, p, mesh, setExit);
  p.addHelpText(
    'after',
    `
Examples:
  cotal up && cotal agent add bob --read team --write team
  cotal join team --as bob
  cotal post team "hello" --as bob
  cotal inbox --as bob --wait 2s
  cotal deliver --help                 the delivery daemon, in the foreground

Exit codes: ${[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 70, 124].join(' ')} (docs/reference/cli.md)`,
  );
  return p;
}

type Verb = (parent: Command, usage: string, about: string) => Command;
type Mesh = (o: Globals) => MeshContext;
type SetExit = (code: number) => void;

interface UpOptions extends Globals {
  readonly open?: boolean;
  readonly foreground?: boolean;
  readonly wait?: boolean;
  readonly port?: number;
  readonly leaseTtl?: number;
  readonly sync?: 'interval' | 'always';
  readonly tlsCert?: string;
  readonly tlsKey?: string;
  readonly tlsCa?: string;
  readonly replicas?: number;
  readonly server?: string;
  readonly acceptRecreated?: boolean;
}

function lifecycleVerbs(
  verb: Verb,
  p: Command,
  context: (o: Globals) => Context,
  mesh: Mesh,
  setExit: SetExit,
): void {
  verb(p, 'up', 'start broker, manager and delivery daemon; only what is missing')
    .option('--open', 'open dev mode: no credentials, live only, no daemon')
    .option('--foreground', 'stay; stop everything at Ctrl-C, fail when the daemon ends')
    .option('--wait', "wait for a dead daemon's lease to expire")
    .option('--port <n>', 'port of the broker (default: the broker picks one)', whole(1, 65_535))
    .option('--lease-ttl <s>', 'time to live of the lease, e.g. 30s', duration)
    .addOption(
      new Option('--sync <mode>', 'when the broker syncs to disk').choices(['interval', 'always']),
    )
    .option('--tls-cert <file>', 'certificate of the broker')
    .option('--tls-key <file>', 'its key')
    .option('--tls-ca <file>', 'CA that clients verify it with')
    .option('--replicas <n>', 'copies of each stream', whole(1))
    .option('--server <url>', 'a broker that runs elsewhere')
    .option(
      '--accept-recreated',
      'take up a channel stream made anew; what the old one held is lost',
    )
    .action(async (o: UpOptions) => {
      const { leaseTtl, ...rest } = o;
      setExit(
        await up(context(o), {
          ...rest,
          ...(leaseTtl === undefined ? {} : { leaseTtlMs: leaseTtl }),
        }),
      );
    });
  verb(p, 'down', 'stop daemon, manager and broker, in this order')
    .option('--keep-broker', 'leave the broker running')
    .action(async (o: Globals & { keepBroker?: boolean }) =>
      down(mesh(o), { keepBroker: o.keepBroker === true }),
    );
  verb(p, 'status', 'what serves, since when, why not; exit 0 only when all is well').action(
    async (o: Globals) => setExit(await status(mesh(o))),
  );
  verb(p, 'manager', 'renew the standing credentials, in the foreground').action(
    async (o: Globals) => {
      const stop = new AbortController();
      for (const s of ['SIGTERM', 'SIGINT'] as const) process.once(s, () => stop.abort());
      await runManager(context(o), stop.signal);
    },
  );
}

interface AgentOptions extends Globals {
  readonly read?: string[];
  readonly write?: string[];
  readonly role?: string;
  readonly name?: string;
}

function adminVerbs(verb: Verb, p: Command, mesh: Mesh): void {
  const agent = p.command('agent').description('principals and their rights');
  const rights = (c: Command): Command =>
    c
      .option('--read <channels>', 'channels or patterns it may read, comma separated', list)
      .option('--write <channels>', 'channels or patterns it may post to', list);
  rights(verb(agent, 'add <name>', 'a principal: lifecycle, rights, durables, credential'))
    .option('--role <role>', 'answers anycasts to this role')
    .option('--name <name>', 'what mentions call it')
    .action(async (name: string, o: AgentOptions) => addAgent(mesh(o), name, agentFlags(o)));
  rights(verb(agent, 'set <name>', 'narrow or re-issue its rights')).action(
    async (name: string, o: AgentOptions) => setAgent(mesh(o), name, agentFlags(o)),
  );
  verb(agent, 'renew <name>', 'a fresh credential of the same lifecycle').action(
    async (name: string, o: Globals) => renewAgent(mesh(o), name),
  );
  verb(agent, 'retire <name>', 'its whole footprint goes').action(
    async (name: string, o: Globals) => retireAgent(mesh(o), name),
  );
  verb(agent, 'list', 'every lifecycle, retired ones included').action(async (o: Globals) =>
    listAgents(mesh(o)),
  );
  const channel = p.command('channel').description('channel configuration');
  verb(channel, 'set <channel>', 'set its delivery class')
    .addOption(
      new Option('--class <class>', 'live or durable')
        .choices(['live', 'durable'])
        .makeOptionMandatory(),
    )
    .action(async (ch: string, o: Globals & { class: 'live' | 'durable' }) =>
      channelSet(mesh(o), ch, o.class),
    );
  verb(channel, 'list', 'every configured channel').action(async (o: Globals) =>
    channelList(mesh(o)),
  );
  const timers = p.command('timers').description('armed broker schedules');
  verb(timers, 'list', 'what is armed and when it is due').action(async (o: Globals) =>
    timersList(mesh(o)),
  );
  verb(timers, 'arm', 'make a checkpoint and its timer, and wait for the fire')
    .option('--in <duration>', 'due in', duration, 3_000)
    .action(async (o: Globals & { in: number }) => timersArm(mesh(o), o.in));
  verb(p, 'pending [name]', 'what waits for whom; consumes nothing').action(
    async (name: string | undefined, o: Globals) => pending(mesh(o), name),
  );
  verb(p, 'members <channel>', 'durable and live members').action(async (ch: string, o: Globals) =>
    members(mesh(o), ch),
  );
}

const agentFlags = (o: AgentOptions) => ({
  ...(o.read === undefined ? {} : { read: o.read }),
  ...(o.write === undefined ? {} : { write: o.write }),
  ...(o.role === undefined ? {} : { role: o.role }),
  ...(o.name === undefined ? {} : { name: o.name }),
});

interface AsOptions extends Globals {
  readonly as: string;
}

function memberVerbs(verb: Verb, p: Command, mesh: Mesh, setExit: SetExit): void {
  const as = (c: Command): Command => c.requiredOption('--as <name>', 'which agent acts');
  as(verb(p, 'join <channel>', 'subscribe live, then durable')).action(
    async (ch: string, o: AsOptions) => setExit(await join(mesh(o), ch, o.as)),
  );
  as(verb(p, 'leave <channel>', 'a hard boundary: nothing of it surfaces afterwards')).action(
    async (ch: string, o: AsOptions) => leave(mesh(o), ch, o.as),
  );
  as(verb(p, 'post <channel> <text>', 'post; prints the receipt'))
    .option('--mention <name>', 'mention somebody; repeatable', list)
    .option('--data <json>', 'a data part')
    .action(
      async (ch: string, text: string, o: AsOptions & { mention?: string[]; data?: string }) =>
        post(mesh(o), ch, text, o.as, {
          ...(o.mention === undefined ? {} : { mention: o.mention }),
          ...(o.data === undefined ? {} : { data: o.data }),
        }),
    );
  as(verb(p, 'inbox', 'read and confirm what waits'))
    .option('--follow', 'stay and show what comes')
    .option('--peek', 'show without confirming')
    .option('--max <n>', 'at most so many', whole(1))
    .option('--wait <duration>', 'wait so long for the first', duration)
    .action(
      async (o: AsOptions & { follow?: boolean; peek?: boolean; max?: number; wait?: number }) =>
        setExit(
          await inbox(mesh(o), o.as, {
            ...(o.follow === undefined ? {} : { follow: o.follow }),
            ...(o.peek === undefined ? {} : { peek: o.peek }),
            ...(o.max === undefined ? {} : { max: o.max }),
            ...(o.wait === undefined ? {} : { waitMs: o.wait }),
          }),
        ),
    );
}

/** Exit code of a command line that commander refused; help and version end with 0. */
export const usageExit = (exitCode: number): number => (exitCode === 0 ? 0 : ERRORS.usage.exitCode);
