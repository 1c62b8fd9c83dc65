import type { Link } from '@plane3/link';
import { type GrantLine, grantLines, PROFILE_NAMES, type ProfileName } from '@plane3/space';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { SpaceBroker } from './support/broker.ts';
import {
  ARGUMENTS,
  type Attempt,
  attemptKey,
  attemptOf,
  permitted,
  refusedOf,
} from './support/probe.ts';

/**
 * For every profile, against a live broker: each right of the table works, and each right of every
 * other profile, with a systematic set of what nobody may do, is refused unless the own table
 * names it.
 */
let broker: SpaceBroker;
beforeAll(async () => {
  broker = await SpaceBroker.provisioned();
});
afterAll(() => broker.stop());

interface Minted {
  readonly link: Link;
  readonly lines: GrantLine[];
}

async function as(profile: ProfileName): Promise<Minted> {
  const minted = await broker.mint(profile, ARGUMENTS[profile]);
  const context = {
    names: broker.names,
    lifecycle: minted.lifecycle,
    userKey: minted.userKey,
    spaceAccountKey: broker.trust.accountKey('space'),
  };
  const lines = grantLines(profile, context, ARGUMENTS[profile]);
  return { link: await broker.connect(minted), lines };
}

/** Rights of all profiles, under an identity that is nobody's. */
function everyRight(): Attempt[] {
  const stranger = { owner: 'local', actor: 'stranger', uid: 's'.repeat(26) };
  const context = {
    names: broker.names,
    lifecycle: stranger,
    userKey: 'USTRANGER',
    spaceAccountKey: broker.trust.accountKey('space'),
  };
  const all = PROFILE_NAMES.flatMap((p) => grantLines(p, context, ARGUMENTS[p]));
  const attempts = all.filter((l) => l.effect === 'allow').map(attemptOf);
  return [...new Map(attempts.map((a) => [attemptKey(a), a])).values()];
}

const pub = (subject: string): Attempt => ({ direction: 'pub', subject });
const sub = (subject: string): Attempt => ({ direction: 'sub', subject });

function nobodysRights(): Attempt[] {
  const streams = broker.specs.map((s) => s.config.name);
  const P = broker.names.prefix;
  return [
    ...streams.flatMap((s) =>
      ['STREAM.DELETE', 'STREAM.SNAPSHOT', 'STREAM.RESTORE', 'CONSUMER.LIST', 'CONSUMER.NAMES'].map(
        (verb) => pub(`$JS.API.${verb}.${s}`),
      ),
    ),
    ...streams.map((s) => pub(`$JS.API.CONSUMER.DURABLE.CREATE.${s}.evil`)),
    ...streams.map((s) => pub(`$JS.API.CONSUMER.CREATE.${s}`)),
    ...['STREAM.LIST', 'STREAM.NAMES', 'ACCOUNT.PURGE.X', 'INFO'].map((v) => pub(`$JS.API.${v}`)),
    ...[`${P}.>`, '>', '*', '$JS.>', '$KV.>', '$SYS.>', `${P}.dinbox.>`, `${P}.chat.>`].map(sub),
    ...[`${P}.dlv.>`, `${P}.inst.>`, '$JS.ACK.>', '_INBOX_USOMEBODY.>', '_INBOX.>'].map(sub),
    pub('_INBOX_USOMEBODY.x'),
    pub('$SYS.REQ.CLAIMS.DELETE'),
    pub('$SYS.REQ.SERVER.PING'),
  ];
}

describe.each(PROFILE_NAMES)('%s', (profile) => {
  let own: Minted;
  beforeAll(async () => {
    own = await as(profile);
  });

  test('every right of its table works', async () => {
    const attempts = own.lines.filter((l) => l.effect === 'allow').map(attemptOf);
    // What ends connections or changes accounts is tried elsewhere, with effect.
    const safe = attempts.filter((a) => !/KICK$|CLAIMS/.test(a.subject));
    expect([...(await refusedOf(own.link, safe))]).toEqual([]);
  });

  test('every right of another profile, and what nobody may, is refused', async () => {
    const attempts = [...everyRight(), ...nobodysRights()];
    const forbidden = attempts.filter((a) => !permitted(own.lines, a));
    expect(forbidden.length).toBeGreaterThan(100);
    const refused = await refusedOf(own.link, forbidden);
    expect(forbidden.map(attemptKey).filter((k) => !refused.has(k))).toEqual([]);
  });
});
