/** Counts since this reader was made. Reasons that never came up stand at zero. */
export interface Counters {
  /** Copies stored in the hand-over stream; `redelivered` of them not for the first time. */
  handedOver: number;
  redelivered: number;
  /** Entries that left the store because the member confirmed them. */
  confirmed: number;
  /** Of these, confirmed after their copy had been taken back. */
  pulledBefore: number;
  /** Of these, proved by the durable's floor at start. */
  confirmedAtStart: number;
  /** Entries that left the store because they are owed no more, by reason. */
  readonly disposed: Record<string, number>;
  /** Copies taken back, by cause. */
  readonly takenBack: Record<string, number>;
  adopted: number;
  /** Copies found at start whose entry had left the store. */
  orphansRemoved: number;
  /** Acks that confirm nothing, by why. */
  readonly acksIgnored: Record<string, number>;
  busy: number;
  refusedByMember: number;
  /** Publishes repeated under the same id because nobody could say what became of them. */
  publishesRepeated: number;
  burnt: number;
  publishesRefused: number;
  readsFailed: number;
  removalsFailed: number;
  watchdogRepairs: number;
  readonly durables: Record<'made' | 'repaired', number>;
  /** Attachments of lifecycles without a valid rights row. */
  attachmentsIgnored: number;
  foreignEntries: number;
}

export const newCounters = (): Counters => ({
  handedOver: 0,
  redelivered: 0,
  confirmed: 0,
  pulledBefore: 0,
  confirmedAtStart: 0,
  disposed: { left: 0, retired: 0, 'own-post': 0 },
  takenBack: { 'not-allowed': 0, expired: 0, detached: 0, asked: 0, stopped: 0 },
  adopted: 0,
  orphansRemoved: 0,
  acksIgnored: { foreign: 0, 'unknown-copy': 0, 'another-copy': 0, 'vanished-copy': 0 },
  busy: 0,
  refusedByMember: 0,
  publishesRepeated: 0,
  burnt: 0,
  publishesRefused: 0,
  readsFailed: 0,
  removalsFailed: 0,
  watchdogRepairs: 0,
  durables: { made: 0, repaired: 0 },
  attachmentsIgnored: 0,
  foreignEntries: 0,
});

export const add = (record: Record<string, number>, key: string, n = 1): void => {
  record[key] = (record[key] ?? 0) + n;
};
