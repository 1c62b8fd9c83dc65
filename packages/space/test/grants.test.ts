import { patternContains, patternsOverlap, spaceNames } from '@plane3/protocol';
import {
  enforceable,
  type GrantLine,
  grantLines,
  newUid,
  PROFILE_NAMES,
  PROFILES,
  permissionLists,
  renderGrants,
} from '@plane3/space';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { ARGUMENTS } from './support/probe.ts';

const names = spaceNames('main');
const alice = { owner: 'local', actor: 'alice', uid: newUid() };
const context = { names, lifecycle: alice, userKey: 'UKEY', spaceAccountKey: 'ASPACE' };
const agent = (read: string[], write: string[] = []): GrantLine[] =>
  grantLines('agent', context, { allowSubscribe: read, allowPublish: write });
const subjects = (lines: GrantLine[], direction: 'pub' | 'sub'): string[] =>
  lines.filter((l) => l.direction === direction && l.effect === 'allow').map((l) => l.subject);

test('no profile is allowed everything, and every right has a reason', () => {
  for (const profile of PROFILE_NAMES)
    for (const l of grantLines(profile, context, ARGUMENTS[profile])) {
      expect(l.subject.split('.')[0], profile).not.toMatch(/^[*>]$/);
      expect(l.subject, profile).not.toMatch(/^\$JS\.(API\.)?>|^\$KV\.>|^\$SYS\.>|^cotal\.>/);
      expect(l.reason.length, `${profile} ${l.subject}`).toBeGreaterThan(3);
    }
});

test('nobody may delete a stream, list streams, or direct-read in the space account', () => {
  for (const profile of PROFILE_NAMES) {
    const all = subjects(grantLines(profile, context, ARGUMENTS[profile]), 'pub');
    expect(all.filter((s) => /STREAM\.(DELETE|LIST|NAMES|SNAPSHOT|RESTORE)/.test(s))).toEqual([]);
    if (PROFILES[profile].account === 'space')
      expect(all.filter((s) => s.includes('DIRECT.GET'))).toEqual([]);
  }
});

test('the daemon publishes no chat, direct message, anycast, request or fire, and writes no rights', () => {
  const s = subjects(grantLines('delivery', context, {}), 'pub');
  const v = subjects(grantLines('delivery-vault', context, {}), 'pub');
  expect(
    s.filter((x) =>
      /^cotal\.main\.(chat\.|inst\.|svc\.|ep\.one\.|ept\..*\.(fire|schedule)$)/.test(x),
    ),
  ).toEqual([]);
  expect([...s, ...v].filter((x) => /STREAM\.(CREATE|UPDATE)/.test(x))).toEqual([]);
  expect(v.filter((x) => /^\$KV\.cotal_(acl|channels)_/.test(x))).toEqual([]);
});

test('only the provisioners make streams', () => {
  const makers = PROFILE_NAMES.filter((p) =>
    subjects(grantLines(p, context, ARGUMENTS[p]), 'pub').some((s) => s.includes('STREAM.CREATE')),
  );
  expect(makers).toEqual(['provisioner', 'provisioner-vault']);
});

test('an agent posts as itself, reads what it may, and pulls only its own durables', () => {
  const lines = agent(['team.backend'], ['team.>']);
  const key = `local.alice.${alice.uid}`;
  expect(subjects(lines, 'sub')).toEqual([
    '_INBOX_UKEY.>',
    'cotal.main.chat.*.*.team.backend',
    `cotal.main.ep.reply.*.*.*.${key}.*`,
    `cotal.main.hand.${key}`,
  ]);
  const pub = subjects(lines, 'pub');
  expect(pub).toContain('cotal.main.chat.local.alice.team.>');
  expect(pub.filter((s) => s.includes('MSG.NEXT')).map((s) => s.split('.').at(-1))).toEqual([
    `chathist_local-alice-${alice.uid}`,
    `dlv_local-alice-${alice.uid}`,
    `dm_local-alice-${alice.uid}`,
  ]);
  expect(pub.filter((s) => s.includes('STREAM.'))).toEqual([]);
});

test('a pattern that ends in a star is narrowed again, and has no history', () => {
  const lines = agent(['team.*']);
  expect(lines).toContainEqual(
    expect.objectContaining({ effect: 'deny', subject: 'cotal.main.chat.*.*.team.*.>' }),
  );
  expect(subjects(lines, 'pub').filter((s) => s.includes('chathist'))).toEqual([]);
});

test('what the broker cannot enforce is refused before anything is signed', () => {
  for (const bad of [['team.*', 'team.a.b'], ['*', 'a.b'], ['a..b'], ['team.>.x'], ['']])
    expect(() => agent(bad), String(bad)).toThrow(
      expect.objectContaining({ code: 'settings-invalid' }),
    );
  expect(enforceable(['team.*', 'team.>', 'team.a.b'])).toEqual(['team.>']);
  expect(enforceable(['team.*', 'team.a', 'ops'])).toEqual(['ops', 'team.*']);
});

test('a direction without any right is denied whole', () => {
  expect(permissionLists([])).toEqual({
    pub: { allow: [], deny: ['>'] },
    sub: { allow: [], deny: ['>'] },
  });
});

describe('patterns', () => {
  const segment = fc.constantFrom('a', 'b', '*');
  const pattern = fc
    .tuple(fc.array(segment, { minLength: 1, maxLength: 3 }), fc.boolean())
    .map(([s, tail]) => (tail ? [...s, '>'] : s).join('.'));
  const channel = fc.array(fc.constantFrom('a', 'b'), { minLength: 1, maxLength: 4 });

  test('contains and overlap agree with what each pattern covers', async () => {
    const { covers } = await import('@plane3/protocol');
    fc.assert(
      fc.property(pattern, pattern, channel, (p, q, c) => {
        const name = c.join('.');
        if (patternContains(p, q) && covers(q, name)) expect(covers(p, name)).toBe(true);
        if (covers(p, name) && covers(q, name)) expect(patternsOverlap(p, q)).toBe(true);
      }),
      { numRuns: 200 },
    );
  });
});

test('the reference page has a section for every profile and every line of it', () => {
  const page = renderGrants();
  for (const p of PROFILE_NAMES) expect(page).toContain(`\n## ${p}\n`);
  expect(page.match(/^# /gm)).toHaveLength(1);
  expect(page).toContain('| subscribe in queue `delivery` | `cotal.S.ep.one.delivery.>` |');
});
