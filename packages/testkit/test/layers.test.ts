import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));

/** The rules that a tree of files breaks, as the boundary checker of this repository names them. */
function broken(files: Readonly<Record<string, string>>): string[] {
  const dir = mkdtempSync(path.join(tmpdir(), 'plane3-layers-'));
  try {
    for (const f of ['.dependency-cruiser.cjs', 'tsconfig.base.json'])
      cpSync(path.join(ROOT, f), path.join(dir, f));
    symlinkSync(path.join(ROOT, 'node_modules'), path.join(dir, 'node_modules'));
    writeFileSync(path.join(dir, 'package.json'), '{"type":"module"}');
    for (const [name, text] of Object.entries(files)) {
      mkdirSync(path.dirname(path.join(dir, name)), { recursive: true });
      writeFileSync(path.join(dir, name), text);
    }
    const bin = path.join(ROOT, 'node_modules/dependency-cruiser/bin/dependency-cruise.mjs');
    const args = [bin, '-c', '.dependency-cruiser.cjs', '-T', 'json', 'packages'];
    const r = spawnSync(process.execPath, args, { cwd: dir, encoding: 'utf8' });
    const report = JSON.parse(r.stdout) as {
      summary: { totalCruised: number; violations: { rule: { name: string } }[] };
    };
    expect(report.summary.totalCruised).toBeGreaterThan(0);
    return [...new Set(report.summary.violations.map((v) => v.rule.name))].sort();
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

it('the boundary checker finds what is planted, and nothing where nothing is', {
  timeout: 30_000,
}, () => {
  const innocent = { 'packages/reader/src/machine.ts': 'export const step = 1;\n' };
  expect(broken(innocent)).toEqual([]);
  const planted = {
    ...innocent,
    'packages/reader/src/impure.ts':
      "import { readFileSync } from 'node:fs';\nreadFileSync('x');\n",
    'packages/registry/src/index.ts': "export { step } from '../../reader/src/machine.ts';\n",
    'packages/lease/src/a.ts': "import './b.ts';\nexport const a = 1;\n",
    'packages/lease/src/b.ts': "import './a.ts';\nexport const b = 1;\n",
    'packages/novel/src/index.ts': "export { step } from '../../reader/src/machine.ts';\n",
  };
  expect(broken(planted)).toEqual(
    expect.arrayContaining([
      'core-is-pure',
      'layer-registry',
      'no-cycle',
      'no-relative-across-packages',
      'unlisted',
    ]),
  );
});
