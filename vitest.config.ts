import { defineConfig } from 'vitest/config';

// Tests read the packages' src, not their dist.
const conditions = ['@plane3/source'];
const common = { resolve: { conditions }, ssr: { resolve: { conditions } } };
const places = '{packages,apps}/*/test/**';

// The tier is the end of a file's name. Tiers run one after the other: two cores serve all of them.
export default defineConfig({
  test: {
    reporters: [process.env['CI'] ? 'dot' : 'default', './scripts/closing-line.mjs'],
    projects: [
      {
        ...common,
        test: {
          name: 'unit', // .test.ts .prop.test.ts .contract.test.ts: no broker, no process
          include: [`${places}/*.test.ts`],
          exclude: ['**/*.{broker,crash,e2e}.test.ts'],
          pool: 'threads',
          isolate: false,
          testTimeout: 10_000,
          sequence: { groupOrder: 0 },
        },
      },
      {
        ...common,
        test: {
          name: 'broker', // a real nats-server per file
          include: [`${places}/*.broker.test.ts`],
          globalSetup: ['./scripts/test-setup.mjs'],
          pool: 'forks',
          maxWorkers: 2,
          testTimeout: 30_000,
          hookTimeout: 30_000,
          sequence: { groupOrder: 1 },
        },
      },
      {
        ...common,
        test: {
          name: 'crash', // built programs, signals, command lines
          include: [`${places}/*.{crash,e2e}.test.ts`],
          globalSetup: ['./scripts/test-setup.mjs'],
          pool: 'forks',
          maxWorkers: 2,
          testTimeout: 90_000,
          hookTimeout: 60_000,
          sequence: { groupOrder: 2 },
        },
      },
    ],
  },
});
