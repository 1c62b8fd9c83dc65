import { generateKeyPairSync, type KeyObject, sign } from 'node:crypto';

/** Prefix bytes of the broker's keys. */
const USER = 20 << 3;
const ACCOUNT = 0;
const SEED = 18 << 3;

export interface TestUser {
  /** For `users: [ { nkey: … } ]` of a broker's configuration. */
  readonly nkey: string;
  readonly creds: Uint8Array;
}

/**
 * A key pair that a broker without a trust chain knows by its public key. The token around it is
 * signed by nobody that counts: only the answer to the broker's challenge does.
 */
export function testUser(name: string): TestUser {
  const user = keyPair();
  const account = keyPair();
  const nkey = encode([USER], user.public);
  const jwt = token(account.key, {
    sub: nkey,
    iss: encode([ACCOUNT], account.public),
    name,
    nats: { type: 'user', version: 2 },
  });
  const seed = encode([SEED | (USER >> 5), (USER & 31) << 3], user.seed);
  const part = (kind: string, text: string): string =>
    `-----BEGIN ${kind}-----\n${text}\n------END ${kind}------\n\n`;
  const text = `${part('NATS USER JWT', jwt)}${part('USER NKEY SEED', seed)}`;
  return { nkey, creds: new TextEncoder().encode(text) };
}

function keyPair(): { readonly key: KeyObject; readonly public: Buffer; readonly seed: Buffer } {
  const { privateKey } = generateKeyPairSync('ed25519');
  const { x, d } = privateKey.export({ format: 'jwk' });
  if (x === undefined || d === undefined) throw new Error('no Ed25519 key');
  const raw = (text: string): Buffer => Buffer.from(text, 'base64url');
  return { key: privateKey, public: raw(x), seed: raw(d) };
}

function token(key: KeyObject, claims: object): string {
  const part = (x: object): string => Buffer.from(JSON.stringify(x)).toString('base64url');
  const head = `${part({ typ: 'JWT', alg: 'ed25519-nkey' })}.${part({ jti: 'test', iat: 1, ...claims })}`;
  return `${head}.${sign(null, Buffer.from(head), key).toString('base64url')}`;
}

function encode(prefix: readonly number[], raw: Buffer): string {
  const body = Buffer.concat([Buffer.from(prefix), raw]);
  const sum = Buffer.alloc(2);
  sum.writeUInt16LE(crc16(body));
  return base32(Buffer.concat([body, sum]));
}

function crc16(bytes: Buffer): number {
  let crc = 0;
  for (const b of bytes) {
    crc ^= b << 8;
    for (let i = 0; i < 8; i++) crc = ((crc & 0x8000 ? 0x1021 : 0) ^ (crc << 1)) & 0xffff;
  }
  return crc;
}

function base32(bytes: Buffer): string {
  let bits = '';
  for (const b of bytes) bits += b.toString(2).padStart(8, '0');
  const groups = bits.match(/.{1,5}/g) ?? [];
  return groups
    .map((g) => 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'[Number.parseInt(g.padEnd(5, '0'), 2)])
    .join('');
}
