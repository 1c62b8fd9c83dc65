import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeDir, spawnDaemon } from '@plane3/testkit';
import { expect, test } from 'vitest';

function script(text: string): string {
  const file = join(makeDir('script'), 'daemon.mjs');
  writeFileSync(file, text);
  return file;
}

test('lines of both streams are seen, and the exit comes after the last of them', async () => {
  const d = spawnDaemon(
    script(
      `console.log("ready", process.argv[2], process.env.A);
       console.error("last");
       process.exit(7)`,
    ),
    { args: ['x'], env: { A: 'b' } },
  );
  expect(await d.waitFor(/^ready/)).toBe('ready x b');
  expect(await d.exit()).toEqual({ code: 7, signal: null });
  expect(d.lines).toContain('last');
  await expect(d.waitFor(/never/)).rejects.toThrow(/ended/);
});

test('a paused daemon says nothing until it is resumed, and SIGKILL ends it', async () => {
  const d = spawnDaemon(script('setInterval(() => console.log("tick"), 5)'));
  await d.waitFor(/tick/);
  d.pause();
  await new Promise((ok) => setTimeout(ok, 50)); // what is in the pipe is read
  const before = d.lines.length;
  await new Promise((ok) => setTimeout(ok, 100));
  expect(d.lines.length).toBe(before);
  d.resume();
  await expect.poll(() => d.lines.length).toBeGreaterThan(before);
  await d.sigkill();
  expect(await d.exit()).toEqual({ code: null, signal: 'SIGKILL' });
});
