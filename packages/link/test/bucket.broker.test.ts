import { Bucket, JetStreamApi, type Link } from '@plane3/link';
import { eventually } from '@plane3/testkit';
import { expect, test } from 'vitest';
import { broker, createBucket, createStream, link, text, utf8 } from './support/links.ts';

async function withBucket(): Promise<{ b: Bucket; l: Link }> {
  const nats = await broker();
  const l = await link(nats.url);
  await createBucket(l, 'b');
  return { b: new Bucket(l, undefined, 'b'), l };
}

const wrong = { kind: 'refused', reason: 'wrong-sequence' };
const done = (value: unknown) => ({ kind: 'done', value });

test('what is put is read from the leader with its revision', async () => {
  const { b } = await withBucket();
  expect(await b.get('k.1')).toEqual(done(undefined));
  expect(await b.put('k.1', utf8('v'))).toEqual(done(1));
  const got = await b.get('k.1');
  expect(got).toMatchObject(done({ key: 'k.1', revision: 1 }));
  if (got.kind === 'done') expect(text(got.value?.value ?? utf8(''))).toBe('v');
});

test('a revision is written once: the second writer is refused', async () => {
  const { b } = await withBucket();
  expect(await b.put('k', utf8('1'), 0)).toEqual(done(1));
  expect(await b.put('k', utf8('x'), 0)).toMatchObject(wrong);
  expect(await b.put('k', utf8('2'), 1)).toEqual(done(2));
  expect(await b.put('k', utf8('x'), 1)).toMatchObject(wrong);
  expect(await b.remove('k', 1)).toMatchObject(wrong);
  const racers = Array.from({ length: 20 }, (_, i) => b.put('race', utf8(String(i)), 0));
  const won = (await Promise.all(racers)).filter((o) => o.kind === 'done');
  expect(won).toHaveLength(1);
});

test('a deleted key is absent, keeps its revision, and can be created anew', async () => {
  const { b } = await withBucket();
  await b.put('k', utf8('1'), 0);
  expect(await b.remove('k', 1)).toEqual(done(2));
  expect(await b.get('k')).toEqual(done(undefined));
  expect(await b.lastRevision('k')).toEqual(done(2));
  expect(await b.lastRevision('other')).toEqual(done(0));
  const creators = [b.put('k', utf8('a'), 0), b.put('k', utf8('b'), 0)];
  const kinds = (await Promise.all(creators)).map((o) => o.kind).sort();
  expect(kinds).toEqual(['done', 'refused']);
});

test('a key that expired is absent and can be created anew, over its marker too', async () => {
  const nats = await broker();
  const l = await link(nats.url);
  await createBucket(l, 'b', { subject_delete_marker_ttl: 60_000_000_000 });
  const b = new Bucket(l, undefined, 'b');
  expect(await b.put('k', utf8('1'), 0, { ttlSeconds: 1 })).toEqual(done(1));
  await eventually(async () => {
    const got = await b.get('k');
    return got.kind === 'done' && got.value === undefined;
  });
  expect(await b.lastRevision('k')).toEqual(done(2)); // the marker
  expect(await b.put('k', utf8('2'), 0, { ttlSeconds: 60 })).toEqual(done(3));
});

test('a bucket that is not there is not-found, and no key of it is absent', async () => {
  const { l } = await withBucket();
  const missing = new Bucket(l, undefined, 'missing');
  expect(await missing.get('k')).toMatchObject({ kind: 'refused', reason: 'not-found' });
  expect(await missing.put('k', utf8(''), 0)).toMatchObject({
    kind: 'refused',
    reason: 'no-stream',
  });
});

test('a write that another stream took is not taken for a write of the bucket', async () => {
  const { l } = await withBucket();
  await createStream(l, 'THIEF', { subjects: ['$KV.stolen.>'] });
  expect(await new Bucket(l, undefined, 'stolen').put('k', utf8(''))).toMatchObject({
    kind: 'refused',
  });
  expect(await new JetStreamApi(l).lastOf('THIEF', '$KV.stolen.k')).toMatchObject({ kind: 'done' });
});
