import { readdir, readFile, readlink } from 'node:fs/promises';
import { createConnection, createServer } from 'node:net';

const PROBE_TIMEOUT_MS = 1_000;
/** `INFO {…}` of a broker is a few hundred bytes; more without a line end is none. */
const GREETING_BYTES_MAX = 64 << 10;

/** Whether somebody else listens on that address; told by the kernel's code, never by a text. */
export function isPortTaken(host: string, port: number): Promise<boolean> {
  return new Promise((ok) => {
    const server = createServer();
    server.once('error', (e: NodeJS.ErrnoException) => ok(e.code === 'EADDRINUSE'));
    server.listen({ host, port, exclusive: true }, () => server.close(() => ok(false)));
  });
}

/** Whether a broker greets there. Sends nothing, so it leaves no failed login behind. */
export function isGreeted(host: string, port: number): Promise<boolean> {
  return new Promise((ok) => {
    const socket = createConnection({ host, port });
    let text = '';
    const end = (isBroker: boolean): void => {
      clearTimeout(late);
      socket.destroy();
      ok(isBroker);
    };
    const late = setTimeout(() => end(false), PROBE_TIMEOUT_MS);
    socket.setEncoding('utf8');
    socket.once('error', () => end(false));
    socket.once('close', () => end(false));
    socket.on('data', (chunk: string) => {
      text += chunk;
      if (text.includes('\n') || text.length > GREETING_BYTES_MAX) end(text.startsWith('INFO {'));
    });
  });
}

/** Whether anybody accepts connections there. */
export function isAccepting(host: string, port: number): Promise<boolean> {
  return new Promise((ok) => {
    const socket = createConnection({ host, port });
    const end = (isOpen: boolean): void => {
      clearTimeout(late);
      socket.destroy();
      ok(isOpen);
    };
    const late = setTimeout(() => end(false), PROBE_TIMEOUT_MS);
    socket.once('error', () => end(false));
    socket.once('connect', () => end(true));
  });
}

export interface Listener {
  readonly pid: number;
  readonly executable: string;
}

/** Who listens on a TCP port, where the system tells it (Linux, own processes or root). */
export async function listenerOf(port: number): Promise<Listener | undefined> {
  const inodes = new Set([
    ...(await listeningInodes('/proc/net/tcp', port)),
    ...(await listeningInodes('/proc/net/tcp6', port)),
  ]);
  if (inodes.size === 0) return undefined;
  for (const name of await readdir('/proc').catch(() => [])) {
    if (!/^\d+$/.test(name)) continue;
    if (!(await holdsOne(name, inodes))) continue;
    const executable = await readlink(`/proc/${name}/exe`).catch(() => '');
    return { pid: Number(name), executable };
  }
  return undefined;
}

const STATE_LISTEN = '0A';

async function listeningInodes(table: string, port: number): Promise<readonly string[]> {
  const text = await readFile(table, 'utf8').catch(() => '');
  const wanted = port.toString(16).toUpperCase().padStart(4, '0');
  return text.split('\n').flatMap((line) => {
    const f = line.trim().split(/\s+/);
    const isOurs = f[1]?.endsWith(`:${wanted}`) === true && f[3] === STATE_LISTEN;
    return isOurs && f[9] !== undefined ? [f[9]] : [];
  });
}

async function holdsOne(pid: string, inodes: ReadonlySet<string>): Promise<boolean> {
  const fds = await readdir(`/proc/${pid}/fd`).catch(() => []);
  for (const fd of fds) {
    const to = await readlink(`/proc/${pid}/fd/${fd}`).catch(() => '');
    const inode = /^socket:\[(\d+)\]$/.exec(to)?.[1];
    if (inode !== undefined && inodes.has(inode)) return true;
  }
  return false;
}
