import fc from 'fast-check';
import type { Lifecycle, Principal } from '../src/index.ts';

/** Values that the wire contract allows, and texts that come near to them. */
export const PREFIX = 'cotal.main';

const LOWER = 'abcdefghijklmnopqrstuvwxyz';
const DIGITS = '0123456789';
const WORD = `${LOWER}${LOWER.toUpperCase()}${DIGITS}_`;

const textOf = (alphabet: string, minLength: number, maxLength: number): fc.Arbitrary<string> =>
  fc.string({ unit: fc.constantFrom(...alphabet), minLength, maxLength });

const owner = fc.oneof(
  fc.constant('local'),
  textOf('abcdefghijklmnopqrstuvwxyz234567', 26, 26).map((s) => `u_${s}`),
);
const actor = textOf(WORD, 1, 64);
export const uid = textOf(`${LOWER}${DIGITS}`, 26, 32);
export const id = textOf(`${WORD}-`, 1, 64);
export const nonce = textOf(`${WORD}-`, 22, 64);
export const command = textOf(`${LOWER}${DIGITS}-`, 1, 32);
export const channel = fc
  .array(textOf(`${WORD}-`, 1, 6), { minLength: 1, maxLength: 5 })
  .map((s) => s.join('.'));
export const principal: fc.Arbitrary<Principal> = fc.record({ owner, actor });
export const lifecycle: fc.Arbitrary<Lifecycle> = fc.record({ owner, actor, uid });

const token = fc.oneof(
  owner,
  actor,
  uid,
  id,
  nonce,
  fc.constantFrom(
    '',
    '*',
    '>',
    'a b',
    'é',
    '$JS',
    'u_a',
    'LOCAL',
    'one',
    'inst',
    'reply',
    'fire',
    '0',
  ),
  fc.string({ maxLength: 5 }),
);

/** Tokens behind a real head: most of them no subject at all, some by chance one. */
export const nearlySubject = fc
  .tuple(
    fc.constantFrom(
      `${PREFIX}.chat`,
      `${PREFIX}.inst`,
      `${PREFIX}.svc`,
      `${PREFIX}.dinbox`,
      `${PREFIX}.dlv`,
      `${PREFIX}.dead`,
      `${PREFIX}.ep.one`,
      `${PREFIX}.ep.inst`,
      `${PREFIX}.ep.reply`,
      `${PREFIX}.ept`,
      'cotal.other.chat',
      'cotal.main2.chat',
      '$JS.ACK',
    ),
    fc.array(token, { maxLength: 10 }),
  )
  .map(([head, tokens]) => [head, ...tokens].join('.'));

/** Ways to make another shape of a subject: each result has other tokens than the subject. */
export const damage = (subject: string): fc.Arbitrary<string> => {
  const tokens = subject.split('.');
  return fc.oneof(
    fc.nat(tokens.length - 1).map((i) => tokens.toSpliced(i, 1, '').join('.')),
    fc.nat(tokens.length - 1).map((i) => tokens.toSpliced(i, 1, '*').join('.')),
    fc.nat(tokens.length - 1).map((i) => tokens.toSpliced(i, 1, `${tokens[i]} `).join('.')),
    fc.nat(tokens.length - 1).map((i) => tokens.toSpliced(i, 1, `${tokens[i]}\n`).join('.')),
    fc.nat(3).map((i) => tokens.toSpliced(i, 1).join('.')),
    fc.constant(`${subject}.`),
    fc.constant(`.${subject}`),
    fc.constant(`${subject}.>`),
    fc.constant(`x${subject}`),
  );
};

const key = fc.oneof(
  fc.string({ maxLength: 6 }),
  fc.constantFrom('__proto__', 'constructor', 'id'),
);
/** JSON whose text survives a round trip (no -0), with the keys that libraries stumble over. */
export const json: fc.Arbitrary<unknown> = fc.letrec((tie) => ({
  value: fc.oneof(
    { depthSize: 'small' },
    fc.constant(null),
    fc.boolean(),
    fc.integer(),
    fc.string({ unit: 'grapheme', maxLength: 10 }),
    fc.array(tie('value'), { maxLength: 4 }),
    fc.array(fc.tuple(key, tie('value')), { maxLength: 4 }).map(objectOf),
  ),
})).value;

/** Own keys only, `__proto__` included, just as JSON.parse makes them. */
function objectOf(entries: readonly (readonly [string, unknown])[]): unknown {
  const o: Record<string, unknown> = {};
  for (const [k, value] of entries)
    Object.defineProperty(o, k, { value, enumerable: true, configurable: true, writable: true });
  return o;
}

const part = fc.oneof(
  fc.record({ kind: fc.constant('text'), text: fc.string({ unit: 'grapheme' }) }),
  fc.record({ kind: fc.constant('data'), data: json }),
  fc.record({
    kind: fc.constant('artifact'),
    name: fc.string(),
    mediaType: fc.string(),
    digest: textOf('0123456789abcdef', 64, 64).map((h) => `sha256:${h}`),
    size: fc.nat(),
  }),
  fc.record({ kind: fc.constantFrom('com.example.table', 'ai.cotal.X_y-z'), anything: json }),
);

/** A whole channel message by `from` with unknown fields in it. */
export const messageOf = (from: Principal, ch: string): fc.Arbitrary<Record<string, unknown>> =>
  fc.record(
    {
      id: fc.string({ maxLength: 20 }),
      ts: fc.nat(),
      space: fc.constant('main'),
      from: fc.record(
        {
          id: fc.constant(`${from.owner}.${from.actor}`),
          name: fc.string(),
          role: fc.string(),
          'x-unknown': json,
        },
        { requiredKeys: ['id', 'name'] },
      ),
      channel: fc.constant(ch),
      parts: fc.array(part, { maxLength: 3 }),
      mentions: fc.array(fc.string(), { maxLength: 3 }),
      replyTo: fc.string(),
      contextId: fc.string(),
      'x-unknown': json,
    },
    { requiredKeys: ['id', 'ts', 'space', 'from', 'channel', 'parts'] },
  );
