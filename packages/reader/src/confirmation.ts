/**
 * What confirms (wire contract section 5: the plain JetStream ack on the member's own durable).
 * The broker never looks at the body's maker, so everything that it sends itself is told apart
 * here: an empty status answer bears headers.
 */
export type AckPayload = 'ack' | 'nak' | 'term' | 'progress' | 'other';

/** A message on `$JS.ACK.<hand-over stream>.>`, as it came. */
export interface AckSeen {
  /** Name of the durable in its subject. */
  readonly durable: string;
  /** Sequence in the hand-over stream. */
  readonly seq: number;
  /** Stored timestamp in its subject, ns since the epoch as a text. */
  readonly storedNs: string;
  readonly payload: AckPayload;
  readonly hasHeaders: boolean;
}

export type AckMeaning =
  | 'confirm'
  /** Busy: the broker redelivers; not charged. */
  | 'busy'
  /** The member will never take it. */
  | 'refuse'
  | 'working'
  /** Nothing that a member says with an ack. */
  | 'foreign';

export function meaningOf(ack: Pick<AckSeen, 'payload' | 'hasHeaders'>): AckMeaning {
  if (ack.hasHeaders) return 'foreign';
  switch (ack.payload) {
    case 'ack':
      return 'confirm';
    case 'nak':
      return 'busy';
    case 'term':
      return 'refuse';
    case 'progress':
      return 'working';
    case 'other':
      return 'foreign';
  }
}

/** A body that is neither empty nor one of the four words is no ack at all. */
export function payloadOf(body: Uint8Array): AckPayload {
  if (body.length === 0) return 'ack';
  // A NAK or a TERM may carry a delay or a reason behind a blank.
  const word = String.fromCharCode(...body.subarray(0, 5));
  const next = body[5];
  if (word === '+ACK') return 'ack';
  if (word === '-NAK' || (word === '-NAK ' && next !== undefined)) return 'nak';
  if (word === '+TERM') return next === undefined || next === 0x20 ? 'term' : 'other';
  return word === '+WPI' ? 'progress' : 'other';
}
