import {
  artifactDigest,
  canonicalBytes,
  closureDigest,
  contractArtifacts,
  DELIVERY_COMMANDS,
  describeDocument,
  digestHex,
} from '@plane3/endpoint';
import { describe, expect, test } from 'vitest';

const VOID_SCHEMA = { type: 'null' };

const canonical = (x: unknown): string => new TextDecoder().decode(canonicalBytes(x));

describe('digests', () => {
  test('the void schema has the artifact and closure digest of the wire contract', () => {
    expect(artifactDigest(VOID_SCHEMA)).toBe(
      'sha256:bcde375ebd4cbacf651311181173836b169d5a360c6ac158c6a2cdaf49be3f61',
    );
    expect(closureDigest(VOID_SCHEMA)).toBe(
      'sha256:1db0472aaee8e6b9d8d3d430ee021a1b6efc559ab7c0b99186898c972c53dd2d',
    );
  });

  test('canonical JSON follows the examples of RFC 8785', () => {
    expect(
      canonical({
        // biome-ignore lint/correctness/noPrecisionLoss: the RFC's own numbers
        numbers: [333333333.33333329, 1e30, 4.5, 2e-3, 0.000000000000000000000000001],
        string: '\u20ac$\u000f\nA\'B"\\\\"/',
        literals: [null, true, false],
      }),
    ).toBe(
      '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],' +
        '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}',
    );
    // Keys sort by UTF-16 code units (RFC 8785 section 3.2.3).
    const keys = ['\u20ac', '\r', '\ufb33', '1', '\ud83d\ude00', '\u0080', '\u00f6'];
    const sorted = JSON.parse(canonical(Object.fromEntries(keys.map((k) => [k, 1])))) as object;
    expect(canonical(Object.fromEntries(keys.map((k) => [k, 1])))).toBe(
      `{${['\r', '1', '\u0080', '\u00f6', '\u20ac', '\ud83d\ude00', '\ufb33']
        .map((k) => `${JSON.stringify(k)}:1`)
        .join(',')}}`,
    );
    expect(Object.keys(sorted)).toHaveLength(7);
    expect(canonical({ b: -0, a: 1e21 })).toBe('{"a":1e+21,"b":0}');
  });

  test('the order of keys and the spelling of a number change no digest', () => {
    expect(artifactDigest({ a: 1.0, b: [2] })).toBe(artifactDigest({ b: [2], a: 1 }));
  });

  test('what is no JSON value has no digest', () => {
    expect(() => artifactDigest(undefined)).toThrow();
    expect(() => artifactDigest({ a: Number.NaN })).toThrow();
  });
});

describe('the contract', () => {
  test('every artifact is published under the digest of its own bytes', () => {
    const artifacts = contractArtifacts(DELIVERY_COMMANDS);
    for (const a of artifacts) expect(artifactDigest(a.document)).toBe(a.digest);
    const published = new Set(artifacts.map((a) => a.digest));
    for (const c of DELIVERY_COMMANDS.values()) {
      expect(published.has(c.inputDigest)).toBe(true);
      expect(published.has(c.outputDigest)).toBe(true);
      expect(digestHex(c.inputDigest)).toMatch(/^[0-9a-f]{64}$/);
    }
  });

  test('describe validates against its own published schema and lists every command once', () => {
    const identity = { endpoint: 'delivery', instanceId: 'a'.repeat(26), epoch: '7' };
    const document = describeDocument(identity, DELIVERY_COMMANDS);
    expect(DELIVERY_COMMANDS.get('describe')?.checkOutput(document)).toEqual({ ok: true });
    const clusters = document['clusters'] as { commands: { name: string }[] }[];
    const names = clusters.flatMap((c) => c.commands.map((x) => x.name));
    expect(names.sort()).toEqual([...DELIVERY_COMMANDS.keys()].sort());
  });

  test('arguments and results are closed: an unknown field is an error', () => {
    const join = DELIVERY_COMMANDS.get('join');
    expect(join?.checkInput({ channel: 'team' })).toEqual({ ok: true });
    expect(join?.checkInput({ channel: 'team', member: 'somebody' }).ok).toBe(false);
    expect(join?.checkInput(null).ok).toBe(false);
    expect(DELIVERY_COMMANDS.get('describe')?.checkInput({}).ok).toBe(false);
  });
});
