import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** The oldest broker with message schedules and per-message TTL that take effect. */
export const BROKER_VERSION_MIN = '2.12.0';
/** A binary that does not answer `--version` within this is not a broker. */
const VERSION_TIMEOUT_MS = 5_000;

const VERSION = /v?(\d+)\.(\d+)\.(\d+)(-[\w.]+)?/;

/** The version a binary tells, as `v2.14.0`. Throws when it does not run or tells none. */
export async function versionOf(bin: string): Promise<string> {
  const { stdout } = await run(bin, ['--version'], {
    timeout: VERSION_TIMEOUT_MS,
    windowsHide: true,
  });
  const m = /v\d+\.\d+\.\d+(?:-[\w.]+)?/.exec(stdout);
  if (m === null)
    throw new Error(`tells no version: ${JSON.stringify(stdout.trim().slice(0, 80))}`);
  return m[0];
}

/** Compares the three numbers; a pre-release counts as its release. */
export function atLeast(version: string, min: string): boolean {
  const have = numbers(version);
  const want = numbers(min);
  if (have === undefined || want === undefined) return false;
  for (let i = 0; i < 3; i++) {
    const a = have[i] as number;
    const b = want[i] as number;
    if (a !== b) return a > b;
  }
  return true;
}

function numbers(version: string): readonly number[] | undefined {
  const m = VERSION.exec(version);
  return m === null ? undefined : [Number(m[1]), Number(m[2]), Number(m[3])];
}
