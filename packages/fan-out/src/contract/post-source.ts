import assert from 'node:assert/strict';
import type { Post } from '../model.ts';
import type { PostRun, PostSink, PostSource } from '../ports.ts';
import { type Case, doneOf, eventually } from './case.ts';

/** A fresh channel stream that keeps 5 posts per sender and channel, and access to it. */
export interface PostSourceUnderTest {
  readonly source: PostSource;
  /** `cotal.<space token>`. */
  readonly prefix: string;
  /** Publishes as a sender would; answers the sequence. */
  publish(subject: string, text: string, headers?: readonly string[]): Promise<number>;
  /** Deletes the stream and makes it anew. */
  recreate(): Promise<void>;
}

interface Sink extends PostSink {
  readonly posts: Post[];
  readonly broken: { (detail: string): void; readonly calls: string[] };
}

function sink(): Sink {
  const posts: Post[] = [];
  const calls: string[] = [];
  return {
    posts,
    post: (p) => posts.push(p),
    broken: Object.assign((detail: string) => void calls.push(detail), { calls }),
  };
}

const open = async (source: PostSource, fromSeq: number, to: PostSink): Promise<PostRun> =>
  doneOf(await source.open(fromSeq, to));

const textOf = (p: Post): string => new TextDecoder().decode(p.body);

async function fill(t: PostSourceUnderTest, count: number): Promise<string> {
  const subject = `${t.prefix}.chat.local.alice.team`;
  for (let i = 1; i <= count; i++) await t.publish(subject, `post ${i}`);
  return subject;
}

export const postSourceContract: readonly Case<PostSourceUnderTest>[] = [
  {
    name: 'names the stream’s incarnation and its first and last sequence',
    run: async (make) => {
      const t = await make();
      const before = doneOf(await t.source.state());
      await fill(t, 3);
      const after = doneOf(await t.source.state());
      assert.deepEqual([after.firstSeq, after.lastSeq], [1, 3]);
      assert.equal(after.incarnation, before.incarnation);
    },
  },
  {
    name: 'a recreated stream has another incarnation',
    run: async (make) => {
      const t = await make();
      const before = doneOf(await t.source.state());
      await t.recreate();
      assert.notEqual(doneOf(await t.source.state()).incarnation, before.incarnation);
    },
  },
  {
    name: 'a run gives posts in order from its sequence, and no more than were asked for',
    run: async (make) => {
      const t = await make();
      const subject = await fill(t, 5);
      const to = sink();
      const run = await open(t.source, 2, to);
      assert.equal(to.posts.length, 0);
      run.ask(2);
      await eventually(() => to.posts.length === 2);
      assert.deepEqual(
        to.posts.map((p) => p.seq),
        [2, 3],
      );
      run.ask(5);
      await eventually(() => to.posts.length === 4);
      await t.publish(subject, 'late');
      await eventually(() => to.posts.length === 5);
      const last = to.posts.at(-1) as Post;
      assert.deepEqual([last.seq, last.subject, textOf(last)], [6, subject, 'late']);
      assert.deepEqual(to.posts.map((p) => p.pending).slice(0, 4), [3, 2, 1, 0]);
      run.passed(6);
      run.close();
    },
  },
  {
    name: 'headers that only the broker writes are named, others are not',
    run: async (make) => {
      const t = await make();
      const to = sink();
      const subject = `${t.prefix}.chat.local.alice.team`;
      await t.publish(subject, 'plain');
      await t.publish(subject, 'forged', ['Nats-Stream', 'Nats-Subject']);
      const run = await open(t.source, 1, to);
      run.ask(2);
      await eventually(() => to.posts.length === 2);
      assert.deepEqual(
        to.posts.map((p) => p.brokerHeaders),
        [[], ['Nats-Stream', 'Nats-Subject']],
      );
      run.close();
    },
  },
  {
    name: 'a later run begins anew at its own sequence and the earlier one is broken',
    run: async (make) => {
      const t = await make();
      await fill(t, 4);
      const first = sink();
      const run = await open(t.source, 1, first);
      run.ask(10);
      await eventually(() => first.posts.length === 4);
      const second = sink();
      const later = await open(t.source, 3, second);
      later.ask(10);
      await eventually(() => second.posts.length === 2);
      await eventually(() => first.broken.calls.length === 1);
      assert.deepEqual(
        second.posts.map((p) => p.seq),
        [3, 4],
      );
      later.close();
    },
  },
  {
    name: 'nothing comes after a close',
    run: async (make) => {
      const t = await make();
      const subject = await fill(t, 1);
      const to = sink();
      const run = await open(t.source, 1, to);
      run.ask(5);
      await eventually(() => to.posts.length === 1);
      run.close();
      await t.publish(subject, 'after');
      const again = sink();
      const other = await open(t.source, 1, again);
      other.ask(5);
      await eventually(() => again.posts.length === 2);
      assert.equal(to.posts.length, 1);
      assert.deepEqual(to.broken.calls, []);
      other.close();
    },
  },
  {
    name: 'a page holds the posts of one channel in the range and says where to go on',
    run: async (make) => {
      const t = await make();
      for (const [from, channel] of [
        ['alice', 'team'],
        ['bob', 'team'],
        ['alice', 'team.a'],
        ['carol', 'team'],
        ['alice', 'team'],
      ])
        await t.publish(`${t.prefix}.chat.local.${from}.${channel}`, 'x');
      const range = { channel: 'team', fromSeq: 2, toSeq: 5, postsMax: 2 };
      const first = doneOf(await t.source.read(range));
      assert.deepEqual(
        first.posts.map((p) => p.seq),
        [2, 4],
      );
      assert.equal(first.evictedThrough, 0);
      const next = first.nextSeq as number;
      const second = doneOf(await t.source.read({ ...range, fromSeq: next }));
      assert.deepEqual(
        second.posts.map((p) => p.seq),
        [5],
      );
      assert.equal(second.nextSeq, undefined);
      const short = doneOf(await t.source.read({ ...range, toSeq: 3, postsMax: 10 }));
      assert.deepEqual(
        short.posts.map((p) => p.seq),
        [2],
      );
      const none = doneOf(await t.source.read({ ...range, channel: 'nobody' }));
      assert.deepEqual([none.posts.length, none.nextSeq], [0, undefined]);
    },
  },
  {
    name: 'a range of which the stream dropped posts of one sender says through where',
    run: async (make) => {
      const t = await make();
      await t.publish(`${t.prefix}.chat.local.bob.team`, 'first');
      await fill(t, 7); // 2 to 8, of which 2 and 3 go
      const range = { channel: 'team', fromSeq: 2, toSeq: 8, postsMax: 10 };
      const page = doneOf(await t.source.read(range));
      assert.deepEqual(
        page.posts.map((p) => p.seq),
        [4, 5, 6, 7, 8],
      );
      assert.equal(page.evictedThrough, 3);
      assert.equal(doneOf(await t.source.read({ ...range, fromSeq: 4 })).evictedThrough, 0);
    },
  },
];
