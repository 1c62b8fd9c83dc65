// fresh clone -> built, with node and npm only; again: 0.1 s, no network. --force reinstalls, --no-build stops after the install
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..');
const pkg = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'));
const version = /^pnpm@(\d+\.\d+\.\d+)/.exec(pkg.packageManager)[1];
const win = process.platform === 'win32';
const say = (s) => console.error(`bootstrap: ${s}`);
const die = (s) => {
  say(s);
  process.exit(1);
};

const [major, minor] = process.versions.node.split('.').map(Number);
if (major < 20 || (major === 20 && minor < 19))
  die(`Node ${process.versions.node} is too old: needs >= 20.19`);

const inputs = ['package.json', 'pnpm-lock.yaml', 'pnpm-workspace.yaml'];
for (const d of ['packages', 'apps'])
  for (const n of readdirSync(path.join(root, d)).sort())
    if (existsSync(path.join(root, d, n, 'package.json'))) inputs.push(`${d}/${n}/package.json`);
const h = createHash('sha256').update(`${process.platform} ${process.arch} ${major}\n`);
for (const f of inputs) h.update(`${f}\n`).update(readFileSync(path.join(root, f)));
const want = h.digest('hex');
const stamp = path.join(root, 'node_modules', '.bootstrap-stamp');

const versionOf = (cmd, args = []) => {
  const r = spawnSync(cmd, [...args, '--version'], {
    cwd: root,
    encoding: 'utf8',
    shell: win,
    env: { ...process.env, COREPACK_ENABLE_DOWNLOAD_PROMPT: '0' },
  });
  return r.status === 0 ? r.stdout.trim() : undefined;
};

if (!process.argv.includes('--force') && existsSync(stamp) && readFileSync(stamp, 'utf8') === want)
  say('dependencies are up to date');
else {
  const local = path.join(root, 'node_modules', 'pnpm', 'bin', 'pnpm.cjs');
  const [cmd, args, from] =
    existsSync(local) && versionOf(process.execPath, [local]) === version
      ? [process.execPath, [local], 'node_modules']
      : versionOf('pnpm') === version
        ? ['pnpm', [], 'PATH']
        : [
            'npx',
            [
              '--yes',
              '--prefer-offline',
              '--fetch-retry-mintimeout=1000',
              '--fetch-retry-maxtimeout=3000',
              `pnpm@${version}`,
            ],
            'npx',
          ]; // without these npx waits 70 s when there is no network, even for a cached pnpm
  say(`installing with pnpm ${version} (${from})`);
  const r = spawnSync(
    cmd,
    [...args, 'install', '--frozen-lockfile', '--prefer-offline', '--reporter=append-only'],
    {
      cwd: root,
      stdio: 'inherit',
      shell: win && cmd !== process.execPath,
      env: { ...process.env, CI: '1' }, // no prompt, and a tree that npm made is replaced without asking
    },
  );
  if (r.status !== 0)
    die(
      'the install failed. It needs the npm registry once; after that everything here runs without a network.',
    );
  writeFileSync(stamp, want);
}
if (!process.argv.includes('--no-build')) {
  const tsc = path.join(root, 'node_modules', 'typescript', 'bin', 'tsc');
  if (spawnSync(process.execPath, [tsc, '-b'], { cwd: root, stdio: 'inherit' }).status !== 0)
    die('the build failed');
}
