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
    // Less to parse at every start; names stay, so that a stack trace can be read.
    options.minifyWhitespace = true;
    options.minifySyntax = true;
    options.conditions = ['@plane3/source', 'node', 'import', 'default'];
  },
  // CommonJS dependencies ask for these at run time.
  banner: {
    js: [
      "import { createRequire as __createRequire } from 'node:module';",
      "import { fileURLToPath as __fileURLToPath } from 'node:url';",
      'const require = __createRequire(import.meta.url);',
      'const __filename = __fileURLToPath(import.meta.url);',
      "const __dirname = __fileURLToPath(new URL('.', import.meta.url));",
    ].join('\n'),
  },
});
