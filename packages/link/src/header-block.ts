import type { MsgHdrs } from '@nats-io/nats-core';

export type HeaderList = readonly (readonly [name: string, value: string])[];

const START = 'NATS/1.0\r\n';
const NAME = /^[!-9;-~]+$/;
/** Names once found good. They are constants of ours, so the bound is never met in service. */
const goodNames = new Set<string>();
const GOOD_NAMES_MAX = 1_024;

function isName(name: string): boolean {
  if (goodNames.has(name)) return true;
  const good = NAME.test(name);
  if (good && goodNames.size < GOOD_NAMES_MAX) goodNames.add(name);
  return good;
}

/**
 * A header block as bytes, in the order given. The client's own `headers()` copies every name
 * through a canonical form and a map, at several times the cost.
 * `undefined` where a name or value would break out of its line.
 */
export function encodeHeaders(pairs: HeaderList): Uint8Array | undefined {
  let text = START;
  for (const [name, value] of pairs) {
    if (value.includes('\n') || value.includes('\r') || !isName(name)) return undefined;
    text += `${name}: ${value}\r\n`;
  }
  return Buffer.from(`${text}\r\n`);
}

/** The client only ever asks headers that it sends for their bytes. */
export const asMsgHdrs = (block: Uint8Array): MsgHdrs =>
  ({ encode: () => block }) as unknown as MsgHdrs;

/** Every header line of a stored message, in order, repeated names as often as they come. */
export function decodeHeaders(block: Uint8Array): [name: string, value: string][] {
  const pairs: [string, string][] = [];
  const lines = Buffer.from(block.buffer, block.byteOffset, block.byteLength)
    .toString('utf8')
    .split('\r\n');
  for (const line of lines.slice(1)) {
    const colon = line.indexOf(':');
    if (colon > 0) pairs.push([line.slice(0, colon), line.slice(colon + 1).trim()]);
  }
  return pairs;
}
