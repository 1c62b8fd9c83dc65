import {
  type Arrival,
  DELIVERY_COMMANDS,
  encodeEnvelope,
  type JudgeSettings,
  type Request,
} from '@plane3/endpoint';
import type { Lifecycle } from '@plane3/protocol';
import { requestSubject } from '@plane3/protocol';

export const PREFIX = 'cotal.main';
export const ALICE: Lifecycle = {
  owner: `u_${'a'.repeat(26)}`,
  actor: 'alice',
  uid: 'a1'.repeat(13),
};
export const BOB: Lifecycle = { owner: 'local', actor: 'bob', uid: 'b2'.repeat(13) };
export const INSTANCE = 'i3'.repeat(13);
export const EPOCH = '7';
export const NOW_MS = 1_800_000_000_000;

export const SETTINGS: JudgeSettings = {
  prefix: PREFIX,
  endpoint: 'delivery',
  instanceId: INSTANCE,
  epoch: EPOCH,
  commands: DELIVERY_COMMANDS,
  deadlineMaxMs: 60_000,
};

let count = 0;
/** A nonce of the shortest allowed length that no other call of this run got. */
export const nonce = (): string => `n${String(count++).padStart(21, '0')}`;

export function request(command: string, args: unknown, over: Partial<Request> = {}): Request {
  const c = DELIVERY_COMMANDS.get(command);
  return {
    v: 1,
    id: 'r1',
    op: {
      endpoint: 'delivery',
      command,
      ...(c === undefined ? {} : { inputDigest: c.inputDigest, outputDigest: c.outputDigest }),
    },
    class: 'ephemeral',
    replyExpected: true,
    ...(args === undefined ? {} : { args }),
    from: { id: `${ALICE.owner}.${ALICE.actor}`, name: 'alice' },
    deadlineMs: 5_000,
    ...over,
  };
}

export const subjectOf = (command: string, caller = ALICE, n = nonce()): string =>
  requestSubject(PREFIX, { endpoint: 'delivery', command, caller, nonce: n });

export function arrival(command: string, body: unknown, over: Partial<Arrival> = {}): Arrival {
  return {
    subject: subjectOf(command),
    headerNames: [],
    body: encodeEnvelope(body as Request),
    nowMs: NOW_MS,
    ...over,
  };
}
