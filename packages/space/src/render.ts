import { type Lifecycle, spaceNames } from '@plane3/protocol';
import type { GrantLine } from './grants/lines.ts';
import {
  grantLines,
  PROFILE_NAMES,
  PROFILES,
  type ProfileArguments,
  type ProfileName,
} from './grants.ts';

/** Example arguments: what is particular to a space or a member stands as a word in the page. */
const EXAMPLE: Lifecycle = { owner: 'O', actor: 'A', uid: 'UID' };
const EXAMPLE_ARGUMENTS: ProfileArguments = {
  agent: { allowSubscribe: ['READ'], allowPublish: ['WRITE'], role: 'ROLE' },
  delivery: {},
  'delivery-vault': {},
  operator: {},
  'operator-vault': {},
  'endpoint-author': { endpoint: 'ENDPOINT', instanceId: 'IID' },
  'record-writer': { endpoint: 'ENDPOINT' },
  provisioner: {},
  'provisioner-vault': {},
  deprovisioner: {},
  manager: {},
  'manager-vault': {},
  observer: {},
  'membership-observer': {},
  'connection-evictor': {},
  'membership-rw': {},
  'claims-pusher': {},
};

/** The reference page of rights, from the very table that minting reads. */
export function renderGrants(): string {
  const head = [
    '# Grants',
    '',
    'Generated from the table in `packages/space`. Default deny: what is not listed is refused by',
    'the broker. `S` stands for the space, `O.A.UID` for the own lifecycle, `KEY` for the own',
    'connection key, `SPACE_ACCOUNT` for the public key of the account of the agents.',
    '',
    '| profile | account | lifetime | for |',
    '| --- | --- | --- | --- |',
    ...PROFILE_NAMES.map((n) => {
      const p = PROFILES[n];
      return `| [${n}](#${n}) | ${p.account} | ${lifetime(p.lifetimeMs)} | ${p.summary} |`;
    }),
  ];
  return `${[...head, ...PROFILE_NAMES.flatMap(section)].join('\n')}\n`;
}

function section<P extends ProfileName>(profile: P): string[] {
  const context = {
    names: spaceNames('S'),
    lifecycle: EXAMPLE,
    userKey: 'KEY',
    spaceAccountKey: 'SPACE_ACCOUNT',
  };
  const lines = grantLines(profile, context, EXAMPLE_ARGUMENTS[profile]);
  return [
    '',
    `## ${profile}`,
    '',
    PROFILES[profile].summary,
    '',
    '| may | subject | because |',
    '| --- | --- | --- |',
    ...lines.map((l) => `| ${verb(l)} | \`${l.subject}\` | ${l.reason} |`),
  ];
}

function verb(l: GrantLine): string {
  const what = l.direction === 'pub' ? 'publish' : 'subscribe';
  const queue = l.queue === undefined ? '' : ` in queue \`${l.queue}\``;
  return l.effect === 'deny' ? `not ${what}` : `${what}${queue}`;
}

const lifetime = (ms: number): string =>
  ms >= 86_400_000 ? `${ms / 86_400_000} d` : `${ms / 60_000} min`;
