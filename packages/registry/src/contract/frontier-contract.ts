import assert from 'node:assert/strict';
import type { FrontierReader } from '../ports.ts';
import { type Case, caseOf, doneOf } from './case.ts';

export interface FrontierHarness {
  readonly frontier: FrontierReader;
  /** Stores a post in the channel stream, answers its sequence. */
  post(): Promise<number>;
  /** Lets at least this much time pass for the stream. */
  pass(ms: number): Promise<void>;
  /** The stream is deleted and made anew. */
  recreate(): Promise<void>;
  end(): Promise<void>;
}

const one = caseOf<FrontierHarness>;

export const frontierContract: readonly Case<FrontierHarness>[] = [
  one('an empty stream ends at 0', async ({ frontier }) => {
    const at = doneOf(await frontier.read(undefined));
    assert.equal(at.seq, 0);
    assert.match(at.incarnation, /^[0-9a-z]+$/);
  }),

  one('the frontier is the last post', async ({ frontier, post }) => {
    await post();
    const last = await post();
    assert.equal(doneOf(await frontier.read(undefined)).seq, last);
  }),

  one('the age behind a cursor is that of the oldest post kept there', async (h) => {
    const first = await h.post();
    await h.pass(200);
    const second = await h.post();
    const behindAll = doneOf(await h.frontier.read(0)).behindAgeMs ?? -1;
    const behindFirst = doneOf(await h.frontier.read(first)).behindAgeMs ?? -1;
    assert.ok(behindAll - behindFirst >= 150, `${behindAll} and ${behindFirst}`);
    assert.equal(doneOf(await h.frontier.read(second)).behindAgeMs, undefined);
  }),

  one('a cursor above the frontier has no age', async ({ frontier, post }) => {
    const last = await post();
    assert.equal(doneOf(await frontier.read(last + 10)).behindAgeMs, undefined);
  }),

  one('a recreated stream is another incarnation', async ({ frontier, post, recreate }) => {
    await post();
    const before = doneOf(await frontier.read(undefined));
    await recreate();
    const after = doneOf(await frontier.read(undefined));
    assert.equal(after.seq, 0);
    assert.notEqual(after.incarnation, before.incarnation);
  }),
];
