// One-file bundles of the apps by tsup, made anew only when a source is younger than the bundle.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs';
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
    // Built beside and put in place whole: a program that starts meanwhile finds the old one.
    const draft = `bundle.${process.pid}`;
    const args = [tsup, '--silent', '--out-dir', draft];
    const r = spawnSync(process.execPath, args, { cwd, stdio: 'inherit' });
    if (r.status !== 0) throw new Error(`bundling ${app} failed`);
    mkdirSync(path.dirname(out), { recursive: true });
    for (const f of readdirSync(path.join(cwd, draft)))
      renameSync(path.join(cwd, draft, f), path.join(cwd, 'bundle', f));
    rmSync(path.join(cwd, draft), { recursive: true, force: true });
  }
}
