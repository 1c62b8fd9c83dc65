// Reference pages that are made from the code's own tables. `--check` writes nothing and ends with
// 1 when a page is stale. Both also end with 1 when the hand-written page of the command line lacks
// a verb or an option, or when an error names a command that does not exist. Build first.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { program } from '../apps/cotal/dist/index.js';
import { ERRORS } from '../packages/protocol/dist/index.js';
import { renderGrants } from '../packages/space/dist/index.js';

const root = fileURLToPath(new URL('../', import.meta.url));

const DISPOSITIONS = {
  retry: 'may succeed later without anybody changing anything',
  refuse: 'stays so until somebody changes what is named',
  withhold: 'kept, and not shown, until a right allows it',
  stop: 'the program ends itself, in order',
  defect: 'a fault in plane3',
};

const FAMILIES = {
  endpoint: 'Answers of the delivery endpoint. These codes travel on the wire.',
  settings: 'Command lines and settings.',
  broker: 'Finding, starting and reaching the broker.',
  credential: 'Credentials of daemon, operator and agents.',
  lease: 'One daemon serves a space at a time.',
  observer: 'The $SYS observer pair, checked before the daemon starts to serve.',
  space: 'Streams, buckets, spaces and agents.',
  local: 'Programs on this machine.',
};

const cell = (text) => text.replaceAll('|', '\\|');

function section(family) {
  const rows = Object.entries(ERRORS).filter(([, e]) => e.family === family);
  return [
    '',
    `## ${family}`,
    '',
    FAMILIES[family],
    '',
    '| code | exit | disposition | what happened | what to do |',
    '| --- | --- | --- | --- | --- |',
    ...rows.map(
      ([code, e]) =>
        `| \`${code}\` | ${e.exitCode} | ${e.disposition} | ${cell(e.message)} | ${cell(e.help)} |`,
    ),
  ];
}

function renderErrors() {
  const families = [...new Set(Object.values(ERRORS).map((e) => e.family))];
  const used = new Set(Object.values(ERRORS).map((e) => e.disposition));
  return `${[
    '# Errors',
    '',
    'Generated from the catalogue in `packages/protocol`. Match on the code, never on the text. A',
    'message may add what was found; where a more precise repair is known it takes the place of the',
    'one below. What the exit codes mean: [cli.md](cli.md#exit-codes).',
    '',
    '| disposition | means |',
    '| --- | --- |',
    ...Object.entries(DISPOSITIONS)
      .filter(([name]) => used.has(name))
      .map(([name, means]) => `| ${name} | ${means} |`),
    ...families.flatMap(section),
  ].join('\n')}\n`;
}

const PAGES = {
  'docs/reference/errors.md': renderErrors(),
  'docs/reference/grants.md': renderGrants(),
};

function current(file) {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return undefined; // not written yet
  }
}

const check = process.argv.includes('--check');
for (const [name, text] of Object.entries(PAGES)) {
  const file = path.join(root, name);
  if (current(file) === text) continue;
  if (check) {
    process.stderr.write(`${name} is stale: node scripts/generate-docs.mjs\n`);
    process.exitCode = 1;
  } else {
    mkdirSync(path.dirname(file), { recursive: true });
    writeFileSync(file, text);
    process.stderr.write(`${name} written\n`);
  }
}

/** Every verb that can be typed, with its options: `agent add` → --read, --write, … */
function verbsOf(command, words = []) {
  const verbs = command.commands.flatMap((c) => verbsOf(c, [...words, c.name()]));
  if (command.commands.length > 0) return verbs;
  return [{ verb: words.join(' '), options: command.options.map((o) => o.long) }];
}

function faultsOfCommands() {
  const verbs = verbsOf(program(() => {}));
  const page = current(path.join(root, 'docs/reference/cli.md')) ?? '';
  const faults = [];
  for (const { verb, options } of verbs) {
    if (!page.includes(`cotal ${verb}`)) faults.push(`docs/reference/cli.md lacks cotal ${verb}`);
    for (const option of options)
      if (!page.includes(option)) faults.push(`docs/reference/cli.md lacks ${option} of ${verb}`);
  }
  const known = new Set(verbs.flatMap(({ verb }) => [verb, verb.split(' ')[0]]));
  for (const [code, { help }] of Object.entries(ERRORS))
    for (const [, verb] of help.matchAll(
      /\bcotal ([a-z]+(?: (?:add|set|renew|retire|list|arm))?)/g,
    ))
      if (!known.has(verb)) faults.push(`error ${code} names cotal ${verb}, which does not exist`);
  return faults;
}

for (const fault of faultsOfCommands()) {
  process.stderr.write(`${fault}\n`);
  process.exitCode = 1;
}
