// The promise, step by step, on a whole mesh in a temporary root. Everything goes through the
// built command line; each step checks its own JSON, and the first that fails ends the demo.
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { buildBundles } from './bundles.mjs';

const CLI = fileURLToPath(new URL('../apps/cotal/bin/cotal.mjs', import.meta.url));
const CALL_TIMEOUT_MS = 30_000;
/** The first `up` may have to fetch a broker. */
const UP_TIMEOUT_MS = 150_000;
/** Fan-out and views follow in milliseconds; a machine under load gets this much. */
const SETTLE_TIMEOUT_MS = 10_000;
const SETTLE_EVERY_MS = 50;
const DEATH_TIMEOUT_MS = 5_000;
const NOT_SERVING = 3;

const color = process.stdout.isTTY && !process.env.NO_COLOR;
const paint = (code, text) => (color ? `\u001b[${code}m${text}\u001b[0m` : text);
const say = (text) => process.stdout.write(`${text}\n`);

/** A step that did not show what it promises; the message has what was expected and what came. */
class Failure extends Error {}

const startedMs = performance.now();
const running = new Set();
let root;
let interrupted = false;

/** Runs one command line to its end, bounded in time; nothing else talks to the mesh. */
async function run(args, o = {}) {
  if (interrupted && !o.always) throw new Failure('interrupted');
  const child = spawn(process.execPath, [CLI, ...args, '--root', root, '--json'], {
    cwd: root,
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true, // Ctrl-C reaches this script alone, which lets the call end and then cleans up
  });
  running.add(child);
  let timedOut = false;
  const timeoutMs = o.timeoutMs ?? CALL_TIMEOUT_MS;
  const timer = setTimeout(() => {
    timedOut = true;
    child.kill('SIGKILL');
  }, timeoutMs);
  const out = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'])
    child[name].setEncoding('utf8').on('data', (text) => {
      out[name] += text;
      if (name === 'stderr' && o.onNote) o.onNote(text);
    });
  const code = await new Promise((resolve, reject) => {
    child.once('error', reject).once('close', resolve);
  });
  clearTimeout(timer);
  running.delete(child);
  const line = `cotal ${args.join(' ')}`;
  if (timedOut) throw new Failure(`${line}: no end within ${timeoutMs} ms\n${out.stderr}`);
  return { code, line, ...out };
}

function parsed(line, text) {
  try {
    return JSON.parse(text);
  } catch {
    throw new Failure(`${line}: expected JSON on standard output\ngot: ${text}`);
  }
}

/** The JSON that a call prints; it must end with the expected exit code. */
async function cotal(args, o = {}) {
  const a = await run(args, o);
  const want = o.exitCode ?? 0;
  if (a.code !== want)
    throw new Failure(`${a.line}: expected exit code ${want}, got ${a.code}\n${a.stderr}`);
  return parsed(a.line, a.stdout);
}

/** The entries that an inbox call shows, one JSON object a line. */
async function inbox(name) {
  const a = await run(['inbox', '--as', name]);
  if (a.code !== 0) throw new Failure(`${a.line}: exit code ${a.code}\n${a.stderr}`);
  const lines = a.stdout.split('\n').filter((l) => l !== '');
  return lines.map((l) => parsed(a.line, l)).filter((item) => item.kind !== 'notice');
}

const show = (value) => JSON.stringify(value);

/** Every key of `want` is in `got` with that value; arrays and scalars are equal. */
function holds(got, want) {
  if (want === null || typeof want !== 'object' || Array.isArray(want))
    return show(got) === show(want);
  return (
    got !== null &&
    typeof got === 'object' &&
    Object.keys(want).every((k) => holds(got[k], want[k]))
  );
}

function expect(what, got, want) {
  if (!holds(got, want))
    throw new Failure(`${what}\nexpected: ${show(want)}\ngot:      ${show(got)}`);
}

/** Asks again until it holds; the last answer is what the failure shows. */
async function settles(what, ask, want) {
  const untilMs = performance.now() + SETTLE_TIMEOUT_MS;
  for (;;) {
    const got = await ask();
    if (holds(got, want) || performance.now() > untilMs) {
      expect(what, got, want);
      return got;
    }
    await sleep(SETTLE_EVERY_MS);
  }
}

/** A zombie that nobody has asked for yet is dead. */
function isAlive(pid) {
  const stat = `/proc/${pid}/stat`;
  try {
    process.kill(pid, 0);
    if (!existsSync('/proc/self/stat')) return true;
    const text = readFileSync(stat, 'utf8');
    return !/^ [ZX]/.test(text.slice(text.lastIndexOf(')') + 1));
  } catch (e) {
    return e.code === 'EPERM';
  }
}

/** Node and broker processes that were started with our root; only where the system tells. */
function processesOfRoot() {
  if (!existsSync('/proc/self/cmdline')) return [];
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .map(Number)
    .filter((pid) => {
      try {
        const [program = '', ...args] = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
        const isKind = /^(?:node|nats-server)/.test(path.basename(program));
        return isKind && args.some((a) => a.includes(root)) && isAlive(pid);
      } catch {
        return false; // it ended meanwhile
      }
    });
}

const withheldSum = (p) => Object.values(p.withheld).reduce((sum, n) => sum + n, 0);
const pending = async (name) => {
  const p = await cotal(['pending', name]);
  return { ...p, withheld_sum: withheldSum(p) };
};
const agent = (name, read, write = read) =>
  cotal(['agent', 'add', name, '--read', read, '--write', write]);
const join = async (name, channel) => {
  const j = await cotal(['join', channel, '--as', name]);
  expect(`${name} joins ${channel}`, j, { live: true, durable: true, reason: null });
  return j;
};
const post = (channel, text, ...flags) => cotal(['post', channel, text, '--as', 'alice', ...flags]);
const texts = (items) => items.map((item) => item.text);

/** What later steps need of earlier ones. */
const mesh = { pids: [], incarnation: undefined, daemonPid: undefined };

const notNoise = (line) => line !== '' && !/^root |: (created|repaired)$/.test(line);

async function up() {
  const onNote = (text) => {
    for (const line of text.split('\n').filter(notNoise)) say(paint('2', `    ${line}`));
  };
  const made = await cotal(['up', '--lease-ttl', '3s'], { timeoutMs: UP_TIMEOUT_MS, onNote });
  expect('up', made, { mode: 'auth', daemon: { state: 'serving', started: true } });
  const s = await cotal(['status']);
  const { incarnation, pid } = made.daemon;
  expect('status', s, { state: 'serving', daemon: { state: 'serving', incarnation, pid } });
  mesh.pids.push(pid, s.broker.pid, s.manager.pid);
  mesh.daemonPid = pid;
  mesh.incarnation = incarnation;
  return `status: serving, daemon ${pid}, incarnation ${incarnation.slice(0, 8)}…`;
}

async function joins() {
  await Promise.all([agent('alice', 'team,plans,lobby'), agent('bob', 'team')]);
  await Promise.all([join('alice', 'team'), join('bob', 'team')]);
  const { durable } = await cotal(['members', 'team']);
  const members = durable.map((m) => `${m.member} ${m.state}`).sort();
  expect('members of team', members, ['local.alice active', 'local.bob active']);
  return 'both live and durable; members shows both active';
}

async function killed() {
  const first = await post('team', 'one');
  expect('the receipt', first, { channel: 'team', class: 'durable', guarantee: 'durable' });
  process.kill(mesh.daemonPid, 'SIGKILL');
  const untilMs = performance.now() + DEATH_TIMEOUT_MS;
  while (isAlive(mesh.daemonPid) && performance.now() < untilMs) await sleep(10);
  expect('the daemon is dead', isAlive(mesh.daemonPid), false);
  const [s, second] = await Promise.all([
    cotal(['status'], { exitCode: NOT_SERVING }),
    post('team', 'two'),
  ]);
  expect('status', s, { state: 'down', daemon: { state: 'down' }, broker: { state: 'serving' } });
  const third = await post('team', 'three');
  expect('sequences ascend', first.seq < second.seq && second.seq < third.seq, true);
  return `sequences ${first.seq}, ${second.seq}, ${third.seq}; status in between: down, exit 3`;
}

async function back() {
  const beginMs = performance.now();
  const again = await cotal(['up']);
  const tookMs = Math.round(performance.now() - beginMs);
  expect('up', again, { broker: { started: false }, daemon: { state: 'serving', started: true } });
  const { pid, incarnation } = again.daemon;
  expect('another incarnation', incarnation !== mesh.incarnation, true);
  mesh.pids.push(pid);
  mesh.incarnation = incarnation;
  return `lease of the dead holder taken over, new incarnation, same broker (${tookMs} ms)`;
}

async function held() {
  const p = await settles('pending bob', () => pending('bob'), { pending: 3, handed_over: 0 });
  return `pending ${p.pending}, handed over ${p.handed_over}`;
}

async function read() {
  const items = await inbox('bob');
  expect('what bob gets', texts(items), ['one', 'two', 'three']);
  const none = { pending: 0, handed_over: 0 };
  const [again] = await Promise.all([
    inbox('bob'),
    settles('pending bob', () => pending('bob'), none),
  ]);
  expect('a second inbox', again, []);
  return `${texts(items).join(', ')}; a second inbox is empty, pending 0`;
}

async function leaves() {
  await agent('carol', 'team');
  await join('carol', 'team');
  await Promise.all([post('team', 'for carol 1'), post('team', 'for carol 2')]);
  await settles('pending carol', () => pending('carol'), { pending: 2 });
  const left = await cotal(['leave', 'team', '--as', 'carol']);
  expect('leave', left, { disposed: 2, already_left: false });
  expect('what carol gets', await inbox('carol'), []);
  expect('pending carol', await pending('carol'), { pending: 0, handed_over: 0 });
  return `disposed ${left.disposed}; inbox empty, pending 0`;
}

async function narrowed() {
  await agent('dave', 'plans');
  await join('dave', 'plans');
  await Promise.all([post('plans', 'for dave 1'), post('plans', 'for dave 2')]);
  await settles('pending dave', () => pending('dave'), { pending: 2, withheld_sum: 0 });
  await cotal(['agent', 'set', 'dave', '--read', 'other']);
  const p = await settles('pending dave', () => pending('dave'), {
    withheld_sum: 2,
    handed_over: 0,
  });
  expect('what dave gets', await inbox('dave'), []);
  expect('still withheld', await pending('dave'), { withheld_sum: 2, handed_over: 0 });
  const why = Object.entries(p.withheld).map(([reason, n]) => `${n} ${reason}`);
  return `withheld: ${why.join(', ')}; inbox empty`;
}

async function mentions() {
  await Promise.all([
    cotal(['channel', 'set', 'lobby', '--class', 'live']),
    agent('erin', 'lobby'),
    agent('frank', 'other'),
  ]);
  await settles('a post in lobby', () => post('lobby', 'anybody here?'), { class: 'live' });
  await post('lobby', 'you two', '--mention', 'erin', '--mention', 'frank');
  await settles('pending erin', () => pending('erin'), { pending: 1 });
  expect('pending frank', await pending('frank'), { pending: 0 });
  const [erin, frank] = await Promise.all([inbox('erin'), inbox('frank')]);
  expect('what erin gets', texts(erin), ['you two']);
  expect('what frank gets', frank, []);
  return 'erin gets exactly that one, frank nothing; neither had joined';
}

async function timer() {
  const t = await cotal(['timers', 'arm', '--in', '1s']);
  expect('timers arm', t, { fired: true, generation: 1 });
  return `fired ${t.late_ms} ms after it was due`;
}

async function down() {
  const d = await cotal(['down']);
  expect('down', d, { daemon: 'stopped', manager: 'stopped', broker: 'stopped' });
  expect('processes that still run', mesh.pids.filter(isAlive), []);
  expect('processes that name the root', processesOfRoot(), []);
  const records = readdirSync(path.join(root, '.cotal')).filter((f) => f.endsWith('.pid'));
  expect('process records left', records, []);
  return `processes ${mesh.pids.join(', ')} are gone, no record left`;
}

const step = (title, show) => ({ title, show });

/** One after the other; where a stage has two lists of steps, these run side by side. */
const STAGES = [
  [
    [
      step('up: broker, manager and delivery daemon serve', up),
      step('alice and bob join the durable channel team', joins),
      step('bob goes away; three posts, SIGKILL of the daemon after the first', killed),
      step('the daemon comes back', back),
      step('all three wait for bob, none is handed over while he is away', held),
      step('bob returns, gets exactly the three in order, and confirms them', read),
    ],
  ],
  [
    [
      step('carol leaves with two pending and gets neither', leaves),
      step('a timer request fires', timer),
    ],
    [
      step("dave's right is narrowed while he is away: his two are withheld", narrowed),
      step(
        'a mention on a live channel reaches absent erin, not frank, who may not read',
        mentions,
      ),
    ],
  ],
  [[step('down leaves no process behind', down)]],
];

/** Whatever happened: no process and no folder of this demo is left. */
async function cleanUp() {
  if (root === undefined) return;
  for (const child of running) child.kill('SIGKILL');
  try {
    if (readdirSync(root).includes('.cotal')) {
      const d = await run(['down'], { always: true });
      if (d.code !== 0) say(`cotal down ended with ${d.code}: ${d.stderr}`);
    }
  } catch (e) {
    say(`cleaning up: ${e.message}`);
  }
  const left = processesOfRoot();
  for (const pid of left) process.kill(pid, 'SIGKILL'); // started with our own root
  rmSync(root, { recursive: true, force: true, maxRetries: 5 });
}

/** Steps of one list, in order; a line each. Throws with the title of the step that failed. */
async function runSteps(steps) {
  for (const { title, show } of steps) {
    try {
      const verified = await show();
      say(`${paint('32', '✓')} ${title}\n    ${paint('2', verified)}`);
    } catch (e) {
      if (!(e instanceof Failure)) throw e;
      throw new Failure(`${title}\n${e.message}`);
    }
  }
}

async function main() {
  buildBundles();
  root = mkdtempSync(path.join(os.tmpdir(), 'plane3-demo-'));
  say(`plane3 demo: a whole mesh in ${root}`);
  for (const stage of STAGES) {
    const ends = await Promise.allSettled(stage.map(runSteps));
    const failed = ends.find((end) => end.status === 'rejected');
    if (failed !== undefined) throw failed.reason;
  }
}

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'])
  process.on(signal, () => {
    if (interrupted) for (const child of running) child.kill('SIGKILL');
    else say('\ninterrupted: the running call ends, then the mesh is stopped (again: at once)');
    interrupted = true;
  });

try {
  await main();
  await cleanUp();
  const seconds = ((performance.now() - startedMs) / 1_000).toFixed(1);
  say(`${STAGES.flat(2).length} steps, every one checked, in ${seconds} s`);
} catch (e) {
  process.exitCode = interrupted ? 130 : 1;
  const detail = e instanceof Failure ? e.message : (e.stack ?? String(e));
  if (!interrupted) say(`${paint('31', '✗')} ${detail.replaceAll('\n', '\n    ')}`);
  await cleanUp();
}
