// One-file bundles of the apps by tsup, made anew only when a source is younger than the bundle.
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, statSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..');
const APPS = ['deliveryd', 'cotal'];

function youngestMs(dir) {
  let ms = 0;
  for (const e of readdirSync(dir, { withFileTypes: true })) {
    const f = path.join(dir, e.name);
    ms = Math.max(ms, e.isDirectory() ? youngestMs(f) : statSync(f).mtimeMs);
  }
  return ms;
}

export function buildBundles() {
  let sourceMs = statSync(path.join(root, 'pnpm-lock.yaml')).mtimeMs;
  for (const d of ['packages', 'apps'])
    for (const n of readdirSync(path.join(root, d))) {
      const src = path.join(root, d, n, 'src');
      if (existsSync(src)) sourceMs = Math.max(sourceMs, youngestMs(src));
    }
  for (const app of APPS) {
    const cwd = path.join(root, 'apps', app);
    const out = path.join(cwd, 'bundle', 'main.js');
    if (existsSync(out) && statSync(out).mtimeMs > sourceMs) continue;
    const tsup = path.join(root, 'node_modules', 'tsup', 'dist', 'cli-default.js');
    const r = spawnSync(process.execPath, [tsup, '--silent'], { cwd, stdio: 'inherit' });
    if (r.status !== 0) throw new Error(`bundling ${app} failed`);
  }
}
