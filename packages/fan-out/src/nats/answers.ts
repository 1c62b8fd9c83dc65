import type { ApiRefusal, PublishAnswer, PublishRefusal } from '@plane3/link';
import { type Outcome, refused } from '@plane3/protocol';
import type { Answer, StoreRefusal } from '../model.ts';
import type { ReadRefusal } from '../ports.ts';

const WRITE: Readonly<Record<PublishRefusal, StoreRefusal>> = {
  'wrong-sequence': 'fence-lost',
  'store-full': 'store-full',
  'too-large': 'too-large',
  'permission-denied': 'permission-denied',
  'no-stream': 'missing',
  rejected: 'rejected',
};

/** An answer counts as stored only if it names the stream that was meant. */
export function toAnswer(o: PublishAnswer, stream: string): Answer {
  if (o.kind === 'done') {
    const { seq, duplicate } = o.value;
    if (o.value.stream !== stream)
      return { kind: 'refused', reason: 'rejected', detail: `stored in ${o.value.stream}` };
    return { kind: 'stored', storeSeq: seq, duplicate };
  }
  if (o.kind === 'unknown') return o;
  return { kind: 'refused', reason: WRITE[o.reason], detail: o.detail };
}

export function toRead(
  o: Exclude<Outcome<unknown, ApiRefusal>, { kind: 'done' }>,
): Exclude<Outcome<never, ReadRefusal>, { kind: 'done' }> {
  if (o.kind === 'unknown') return o;
  if (o.reason === 'not-found') return refused('missing', o.detail);
  if (o.reason === 'permission-denied') return refused('permission-denied', o.detail);
  return refused('rejected', o.detail);
}
