import { createHash } from 'node:crypto';
import canonicalize from 'canonicalize';

/**
 * Digests of contract documents (wire contract section 6). A digest is `sha256:<64 hex>` of the
 * RFC 8785 canonical JSON of a document.
 */
export type Digest = string;

const DIGEST = /^sha256:[0-9a-f]{64}$/;

export const isDigest = (text: string): boolean => DIGEST.test(text);

/** The hex of a digest, as it stands in the subject of a published artifact. */
export const digestHex = (digest: Digest): string => digest.slice('sha256:'.length);

/** RFC 8785 bytes of a JSON value. Throws a TypeError for what is no JSON value. */
export function canonicalBytes(document: unknown): Uint8Array {
  const text = canonicalize(document);
  if (text === undefined) throw new TypeError('not a JSON value');
  return new TextEncoder().encode(text);
}

/** Digest of a document's canonical bytes. */
export const artifactDigest = (document: unknown): Digest =>
  `sha256:${createHash('sha256').update(canonicalBytes(document)).digest('hex')}`;

/** What a schema consists of: its own artifact digest and those of the documents it refers to. */
export interface Manifest {
  readonly members: readonly Digest[];
  readonly root: Digest;
  readonly v: 1;
}

/** Manifest of a schema. `others` are the documents that it refers to, without itself. */
export const manifestOf = (schema: unknown, others: readonly unknown[] = []): Manifest => ({
  members: others.map(artifactDigest).sort(),
  root: artifactDigest(schema),
  v: 1,
});

/** The digest that `op.inputDigest` and `op.outputDigest` carry: the manifest's artifact digest. */
export const closureDigest = (schema: unknown, others: readonly unknown[] = []): Digest =>
  artifactDigest(manifestOf(schema, others));
