import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { secretsContract } from '@plane3/observer-check/contract';
import { MemorySecrets } from '@plane3/observer-check/memory';
import { FileSecrets } from '@plane3/observer-check/nats';
import { makeDir } from '@plane3/testkit';
import { describe, expect, test } from 'vitest';

describe('an injected store', () => {
  for (const c of secretsContract)
    test(c.name, () =>
      c.run(async () => {
        const source = new MemorySecrets();
        return {
          source,
          put: async (name, bytes) => void source.set(name, bytes),
          remove: async (name) => void source.set(name, undefined),
          makeUnreadable: async (name) => void source.set(name, null),
          close: async () => {},
        };
      }),
    );
});

describe('a folder', () => {
  for (const c of secretsContract)
    test(c.name, () =>
      c.run(async () => {
        const folder = makeDir('secrets');
        const source = new FileSecrets(folder);
        return {
          source,
          put: async (name, bytes) => writeFileSync(source.where(name), bytes),
          remove: async (name) => rmSync(source.where(name)),
          // A folder in its place: also root, who may read every file, cannot read that.
          makeUnreadable: async (name) => {
            rmSync(source.where(name));
            mkdirSync(source.where(name));
          },
          close: async () => rmSync(folder, { recursive: true }),
        };
      }),
    );

  test('S52, S54: the folder is fixed when the source is made, not by the working directory', () => {
    const before = new FileSecrets('some/root').where('membership-observer');
    expect(before.startsWith(process.cwd())).toBe(true);
  });
});
