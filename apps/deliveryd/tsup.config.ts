import { defineConfig } from 'tsup';

// One file with everything in it: half the start time, and nothing left to install.
export default defineConfig({
  entry: ['src/main.ts'],
  format: ['esm'],
  platform: 'node',
  target: 'node20',
  outDir: 'bundle',
  clean: true,
  dts: false,
  sourcemap: true,
  splitting: false,
  noExternal: [/.*/],
  esbuildOptions(options) {
    options.conditions = ['@plane3/source', 'node', 'import', 'default'];
  },
  // CommonJS dependencies ask for `require` at run time.
  banner: {
    js: "import { createRequire as __createRequire } from 'node:module'; const require = __createRequire(import.meta.url);",
  },
});
