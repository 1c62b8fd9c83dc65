import assert from 'node:assert/strict';
import type { SecretName } from '../model.ts';
import type { SecretSource } from '../ports.ts';

/** A fresh, empty store for each case. */
export interface SecretsHarness {
  readonly source: SecretSource;
  put(name: SecretName, bytes: Uint8Array): Promise<void>;
  remove(name: SecretName): Promise<void>;
  /** From now on there is something that cannot be read. */
  makeUnreadable(name: SecretName): Promise<void>;
  close(): Promise<void>;
}

export interface SecretsCase {
  readonly name: string;
  run(make: () => Promise<SecretsHarness>): Promise<void>;
}

const given = (name: string, body: (h: SecretsHarness) => Promise<void>): SecretsCase => ({
  name,
  run: async (make) => {
    const h = await make();
    try {
      await body(h);
    } finally {
      await h.close();
    }
  },
});

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

export const secretsContract: readonly SecretsCase[] = [
  given('what was never put is proved absent', async ({ source }) => {
    const o = await source.read('membership-observer');
    assert.deepEqual(o, { kind: 'done', value: undefined });
  }),
  given('what was put is read back byte by byte, and the other one stays absent', async (h) => {
    await h.put('membership-observer', bytes('one'));
    const o = await h.source.read('membership-observer');
    assert.equal(o.kind, 'done');
    assert.deepEqual(o.kind === 'done' && o.value && [...o.value], [...bytes('one')]);
    assert.deepEqual(await h.source.read('connection-evictor'), { kind: 'done', value: undefined });
  }),
  given('an empty secret is present', async (h) => {
    await h.put('connection-evictor', new Uint8Array());
    const o = await h.source.read('connection-evictor');
    assert.equal(o.kind === 'done' && o.value?.length, 0);
  }),
  given('each read is of that moment', async (h) => {
    await h.put('membership-observer', bytes('one'));
    await h.source.read('membership-observer');
    await h.put('membership-observer', bytes('two'));
    const o = await h.source.read('membership-observer');
    assert.deepEqual(o.kind === 'done' && o.value && [...o.value], [...bytes('two')]);
    await h.remove('membership-observer');
    assert.deepEqual(await h.source.read('membership-observer'), {
      kind: 'done',
      value: undefined,
    });
  }),
  given('unreadable is neither absent nor present', async (h) => {
    await h.put('membership-observer', bytes('one'));
    await h.makeUnreadable('membership-observer');
    const o = await h.source.read('membership-observer');
    assert.equal(o.kind, 'refused');
  }),
  given('each secret has a place of its own that a person can find', async ({ source }) => {
    const observer = source.where('membership-observer');
    assert.ok(observer.includes('membership-observer'));
    assert.notEqual(observer, source.where('connection-evictor'));
  }),
];
