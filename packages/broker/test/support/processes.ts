import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { identify, type ProcessIdentity } from '@plane3/broker';

/** A process of ours that does nothing for a minute. */
export async function sleeper(): Promise<{
  readonly child: ChildProcess;
  readonly identity: ProcessIdentity;
  end(): Promise<void>;
}> {
  const child = spawn('sleep', ['60'], { stdio: 'ignore' });
  await once(child, 'spawn');
  const identity = await identify(child.pid);
  if (identity === undefined) throw new Error('the sleeper has no identity');
  const end = async (): Promise<void> => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const gone = once(child, 'exit');
    child.kill('SIGKILL');
    await gone;
  };
  return { child, identity, end };
}

/** A zombie that its parent has not asked for yet is dead; without /proc only the pid tells. */
export const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
  } catch {
    return false;
  }
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return !/^ [ZX]/.test(stat.slice(stat.lastIndexOf(')') + 1));
  } catch {
    return process.platform !== 'linux';
  }
};

export function brokerConfig(dir: string, extra = ''): string {
  const file = path.join(dir, 'broker.conf');
  writeFileSync(
    file,
    `host: 127.0.0.1\nport: -1\njetstream { store_dir: ${JSON.stringify(path.join(dir, 'js'))} }\n${extra}`,
  );
  return file;
}
