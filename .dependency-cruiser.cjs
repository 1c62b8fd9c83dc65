// Who may import whom. A package that is missing here fails the run: see "unlisted".
const DOMAIN = ['registry', 'fan-out', 'reader', 'lease', 'observer-check', 'schedule-writer'];
const PACKAGES = {
  protocol: [],
  link: ['protocol'],
  ...Object.fromEntries(DOMAIN.map((n) => [n, ['protocol', 'link']])),
  space: ['protocol', 'link'],
  broker: ['protocol'],
  endpoint: ['protocol', 'link'],
  member: ['protocol', 'link', 'endpoint'],
  testkit: [],
};
const APPS = {
  deliveryd: ['protocol', 'link', 'space', 'broker', 'endpoint', ...DOMAIN],
  cotal: ['protocol', 'link', 'space', 'broker', 'endpoint', 'member', 'deliveryd'],
};
const TEST_ONLY = ['testkit'];
const any = (l) => (l.length ? l.join('|') : '(?!)');
const domain = `^packages/(${any(DOMAIN)})/src/`;

module.exports = {
  forbidden: [
    ...Object.entries(PACKAGES).map(([n, ok]) => ({
      name: `layer-${n}`,
      severity: 'error',
      from: { path: `^packages/${n}/src/` },
      to: { path: '^(packages|apps)/', pathNot: `^packages/(${any([n, ...ok])})/src/` },
    })),
    ...Object.entries(APPS).map(([n, ok]) => ({
      name: `app-${n}`,
      severity: 'error',
      from: { path: `^apps/${n}/src/` },
      to: {
        path: '^(packages|apps)/',
        pathNot: `^(apps/(${any([n, ...ok.filter((x) => x in APPS)])})|packages/(${any(ok)}))/src/`,
      },
    })),
    {
      // A domain core knows neither clock, I/O, randomness nor a broker: only its ./nats adapter may.
      name: 'core-is-pure',
      severity: 'error',
      from: { path: domain, pathNot: `${domain}(nats|contract)/` },
      to: { dependencyTypes: ['core', 'npm'] },
    },
    {
      name: 'core-knows-no-link',
      severity: 'error',
      from: { path: domain, pathNot: `${domain}nats/` },
      to: { path: '^packages/link/' },
    },
    {
      name: 'protocol-is-pure',
      severity: 'error',
      from: { path: '^packages/protocol/src/' },
      to: { dependencyTypes: ['core'] },
    },
    {
      name: 'unlisted',
      severity: 'error',
      from: {
        path: '^(packages|apps)/',
        pathNot: `^(packages/(${any(Object.keys(PACKAGES))})|apps/(${any(Object.keys(APPS))}))/`,
      },
      to: {},
    },
    {
      name: 'no-relative-across-packages',
      severity: 'error',
      from: { path: '^((?:packages|apps)/[^/]+)/' },
      to: { path: '^(packages|apps)/', pathNot: '^$1/', dependencyTypes: ['local'] },
    },
    {
      name: 'no-test-code-in-src',
      severity: 'error',
      from: { path: '/src/', pathNot: `^packages/(${any(TEST_ONLY)})/` },
      to: { path: `^packages/(${any(TEST_ONLY)})/` },
    },
    { name: 'no-cycle', severity: 'error', from: {}, to: { circular: true } },
    {
      name: 'resolvable',
      severity: 'error',
      from: { path: '/(src|test)/' },
      to: { couldNotResolve: true },
    },
    {
      name: 'declared',
      severity: 'error',
      from: { path: '/src/', pathNot: '/src/contract/' },
      to: { dependencyTypes: ['npm-no-pkg', 'npm-unknown', 'npm-dev'] },
    },
  ],
  options: {
    tsConfig: { fileName: 'tsconfig.base.json' },
    tsPreCompilationDeps: true, // sees `import type` too
    doNotFollow: { path: 'node_modules' },
    exclude: { path: '(^|/)(dist|bundle)/' },
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['@plane3/source', 'import', 'types', 'node', 'default'],
    },
  },
};
