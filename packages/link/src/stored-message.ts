import type { Msg } from '@nats-io/nats-core';
import { decodeHeaders } from './header-block.ts';

/** A message as the stream holds it. */
export interface StoredMessage {
  readonly subject: string;
  readonly seq: number;
  /** When it was stored, RFC 3339 with nanoseconds. */
  readonly time: string;
  readonly body: Uint8Array;
  /** The first value of a header of exactly this name. */
  header(name: string): string | undefined;
  /** The names that the message itself bears; a name that comes twice is listed twice. */
  headerNames(): readonly string[];
}

type Pairs = readonly (readonly [string, string])[];

class Message implements StoredMessage {
  readonly subject: string;
  readonly seq: number;
  readonly time: string;
  readonly body: Uint8Array;
  readonly #pairs: () => Pairs;
  #read: Pairs | undefined;

  constructor(
    facts: { subject: string; seq: number; time: string; body: Uint8Array },
    p: () => Pairs,
  ) {
    this.subject = facts.subject;
    this.seq = facts.seq;
    this.time = facts.time;
    this.body = facts.body;
    this.#pairs = p;
  }

  header(name: string): string | undefined {
    return this.#headers().find(([n]) => n === name)?.[1];
  }
  headerNames(): readonly string[] {
    return this.#headers().map(([n]) => n);
  }
  #headers(): Pairs {
    this.#read ??= this.#pairs();
    return this.#read;
  }
}

/** A message in the answer of the leader's `STREAM.MSG.GET`. */
export interface ApiMessage {
  readonly subject: string;
  readonly seq: number;
  readonly time: string;
  readonly data?: string;
  readonly hdrs?: string;
}

export function fromApi(m: ApiMessage): StoredMessage {
  const body = Buffer.from(m.data ?? '', 'base64');
  return new Message({ subject: m.subject, seq: m.seq, time: m.time, body }, () =>
    m.hdrs === undefined ? [] : decodeHeaders(Buffer.from(m.hdrs, 'base64')),
  );
}

/** What a direct get adds; the broker appends them, so the last of each name is the broker's. */
const ADDED = [
  'Nats-Stream',
  'Nats-Subject',
  'Nats-Sequence',
  'Nats-Time-Stamp',
  'Nats-Num-Pending',
  'Nats-Last-Sequence',
];

export interface DirectMessage {
  readonly message: StoredMessage;
  /** Sequence of the message before it in this batch, 0 for the first. */
  readonly previousSeq: number;
}

/** `undefined` for an answer that is not a message of a batched direct get. */
export function fromDirect(m: Msg): DirectMessage | undefined {
  const pairs: [string, string][] = [];
  for (const [name, values] of m.headers ?? []) for (const v of values) pairs.push([name, v]);
  const added = new Map<string, string>();
  for (const name of ADDED) {
    const at = pairs.findLastIndex(([n]) => n === name);
    if (at < 0) return undefined;
    added.set(name, pairs[at]?.[1] as string);
    pairs.splice(at, 1);
  }
  const seq = Number(added.get('Nats-Sequence'));
  const previousSeq = Number(added.get('Nats-Last-Sequence'));
  if (!Number.isSafeInteger(seq) || !Number.isSafeInteger(previousSeq)) return undefined;
  const facts = {
    subject: added.get('Nats-Subject') as string,
    seq,
    time: added.get('Nats-Time-Stamp') as string,
    body: m.data,
  };
  return { message: new Message(facts, () => pairs), previousSeq };
}
