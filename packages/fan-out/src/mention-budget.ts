/**
 * How many mention copies one sender may cause in a minute, so that nobody crowds out others.
 * Time is the broker's own: the moment at which it stored the post. A replay therefore decides
 * like the first time: everything charged at or after the replayed sequence is forgotten first.
 * Memory: at most `copiesMax` numbers a sender, and no sender without a charge in the window.
 */
export interface MentionBudget {
  /** Whether one more copy for `sender` is within the budget; charges it if so. */
  charge(sender: string, seq: number, atMs: number): boolean;
  /** A post is decided (again): charges of it and of later ones are void. */
  rewindTo(seq: number): void;
  readonly senders: number;
}

interface Charge {
  readonly seq: number;
  readonly atMs: number;
}

export const MENTION_COPIES_MAX = 60;
export const MENTION_WINDOW_MS = 60_000;
/** Senders with nothing in the window are dropped each time so many posts were charged. */
const SWEEP_EVERY = 1024;

export function mentionBudget(
  copiesMax = MENTION_COPIES_MAX,
  windowMs = MENTION_WINDOW_MS,
): MentionBudget {
  const charges = new Map<string, Charge[]>();
  let highest = 0;
  let sinceSweep = 0;

  const keep = (sender: string, wanted: (c: Charge) => boolean): Charge[] => {
    const kept = (charges.get(sender) ?? []).filter(wanted);
    if (kept.length === 0) charges.delete(sender);
    else charges.set(sender, kept);
    return kept;
  };

  return {
    charge(sender, seq, atMs) {
      if (++sinceSweep >= SWEEP_EVERY) {
        sinceSweep = 0;
        for (const other of [...charges.keys()]) keep(other, (c) => c.atMs > atMs - windowMs);
      }
      const spent = keep(sender, (c) => c.atMs > atMs - windowMs);
      if (spent.length >= copiesMax) return false;
      spent.push({ seq, atMs });
      charges.set(sender, spent);
      highest = Math.max(highest, seq);
      return true;
    },
    rewindTo(seq) {
      if (seq > highest) return;
      for (const sender of [...charges.keys()]) keep(sender, (c) => c.seq < seq);
      highest = seq - 1;
    },
    get senders() {
      return charges.size;
    },
  };
}
