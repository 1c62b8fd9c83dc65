import assert from 'node:assert/strict';
import type { Answer } from '../model.ts';
import type { Burial, DeadPosts } from '../ports.ts';
import { type Case, doneOf } from './case.ts';

const burial = (seq: number, o: Partial<Burial> = {}): Burial => ({
  incarnation: 'a1',
  reason: 'malformed-json',
  detail: 'not JSON\r\nNats-Msg-Id: forged \u00e9',
  post: {
    seq,
    subject: 'cotal.main.chat.local.alice.team',
    body: new TextEncoder().encode('nonsense'),
    storedAtMs: 1,
    brokerHeaders: [],
    pending: 0,
  },
  ...o,
});

const bury = (dead: DeadPosts, b: Burial): Promise<Answer> => new Promise((ok) => dead.bury(b, ok));

export const deadPostsContract: readonly Case<DeadPosts>[] = [
  {
    name: 'a buried post is found above the floor under its sequence',
    run: async (make) => {
      const dead = await make();
      const first = await bury(dead, burial(3));
      await bury(dead, burial(9));
      await bury(dead, burial(4, { incarnation: 'b2' }));
      assert.equal(first.kind === 'stored' && first.duplicate, false);
      const floor = first.kind === 'stored' ? first.storeSeq : 0;
      const all = doneOf(await dead.buriedAbove(0, 'a1'));
      assert.deepEqual([...all.seqs], [3, 9]);
      const above = doneOf(await dead.buriedAbove(floor, 'a1'));
      assert.deepEqual([[...above.seqs], above.deadSeq], [[9], floor + 2]);
    },
  },
  {
    name: 'the same post again is one burial',
    run: async (make) => {
      const dead = await make();
      const first = await bury(dead, burial(3));
      const again = await bury(dead, burial(3));
      assert.equal(again.kind === 'stored' && again.duplicate, true);
      assert.deepEqual({ ...again, duplicate: false }, first);
      assert.equal(doneOf(await dead.buriedAbove(0, 'a1')).deadSeq, 1);
    },
  },
  {
    name: 'a body as large as any that a sender can post is buried all the same',
    run: async (make) => {
      const dead = await make();
      const large = burial(3);
      const post = { ...large.post, body: new Uint8Array(64 * 1024) };
      assert.equal((await bury(dead, { ...large, post })).kind, 'stored');
    },
  },
];
