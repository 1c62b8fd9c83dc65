// What the run knows for itself, and the judgement over it. No I/O: everything comes in as facts.
// Times are milliseconds of this process's monotonic clock; sequences are those of CHAT.

const keyOf = (member, channel) => `${member} ${channel}`;

export class Ledger {
  /** `member channel` → intervals in order of their generation. */
  intervals = new Map();
  narrowings = [];
  /** Every surfacing: of a client's item, or of a copy that a foreign agent pulled. */
  receipts = [];
  /** Marker → sequence that the broker acknowledged, `undefined` where nobody could say. */
  posts = new Map();
  kills = [];

  joined(member, channel, { generation, joinCursor }) {
    const key = keyOf(member, channel);
    const list = this.intervals.get(key) ?? [];
    this.intervals.set(key, list);
    if (list.some((i) => i.generation === generation)) return;
    list.push({ generation, joinCursor, leaveCursor: undefined, leftAt: undefined });
  }

  left(member, channel, leaveCursor, at) {
    const last = this.intervals.get(keyOf(member, channel))?.at(-1);
    if (last === undefined || last.leaveCursor !== undefined) return;
    Object.assign(last, { leaveCursor, leftAt: at });
  }

  openInterval(member, channel) {
    const last = this.intervals.get(keyOf(member, channel))?.at(-1);
    return last?.leaveCursor === undefined ? last : undefined;
  }

  received(r) {
    const receipt = { confirmedAt: undefined, confirmed: undefined, ...r };
    this.receipts.push(receipt);
    return receipt;
  }
}

const within = (i, seq) =>
  seq > i.joinCursor && (i.leaveCursor === undefined || seq <= i.leaveCursor);

/** Why a surfacing of the backstop must not have been; `undefined`: it was right. */
function leakOf(ledger, r) {
  if (r.seq === undefined || r.mention) return undefined;
  const all = ledger.intervals.get(keyOf(r.member, r.channel)) ?? [];
  const fitting = all.filter(
    (i) => within(i, r.seq) && (r.generation === undefined || r.generation === i.generation),
  );
  if (fitting.length === 0) return 'outside every interval';
  if (fitting.every((i) => i.leftAt !== undefined && r.at > i.leftAt)) return 'after the leave';
  const narrowed = ledger.narrowings.some(
    (n) =>
      n.member === r.member &&
      n.channels.includes(r.channel) &&
      r.at > n.settledAt &&
      r.at < (n.widenedAt ?? Number.POSITIVE_INFINITY),
  );
  return narrowed ? 'after the narrowing' : undefined;
}

/** What one member has surfaced and confirmed, by marker. */
function surfacedBy(ledger, member) {
  const by = new Map();
  for (const r of ledger.receipts) {
    if (r.member !== member || r.confirmedAt === undefined) continue;
    const known = by.get(r.marker) ?? { seqs: new Set(), live: 0, all: [] };
    by.set(r.marker, known);
    if (r.seq === undefined) known.live++;
    else known.seqs.add(r.seq);
    known.all.push(r);
  }
  return by;
}

/** Posts of one marker: one, or the copies of an id-less post that was made several times. */
function byMarker(chat) {
  const groups = new Map();
  for (const p of chat) groups.set(p.marker, [...(groups.get(p.marker) ?? []), p]);
  return groups;
}

/**
 * @param chat every stored post {seq, from, channel, marker, mentions, id}
 * @param members [{member, principal, name, mentionsJudged}]
 * @param isLive (channel) → whether only mentions are owed there
 */
export function judge(ledger, chat, members, isLive) {
  const lost = [];
  const duplicates = [];
  let owed = 0;
  const groups = byMarker(chat);
  for (const m of members) {
    const surfaced = surfacedBy(ledger, m.member);
    for (const [marker, posts] of groups) {
      const due = posts.filter((p) => isOwed(ledger, m, p, isLive));
      owed += due.length;
      const s = surfaced.get(marker);
      const one = posts.length > 1 && posts[0].id !== '';
      const have = s === undefined ? 0 : one ? posts.length : s.seqs.size + s.live;
      if (have < due.length)
        lost.push({
          member: m.member,
          channel: due[0].channel,
          marker,
          seqs: due.map((p) => p.seq),
          have,
        });
      if (s !== undefined && posts.length === 1) duplicates.push(...repeated(m, s.all));
    }
  }
  const leaked = ledger.receipts.flatMap((r) => {
    const why = leakOf(ledger, r);
    return why === undefined ? [] : [{ why, ...r }];
  });
  const stored = new Set(chat.map((p) => p.seq));
  const brokerLost = [...ledger.posts].filter(([, seq]) => seq !== undefined && !stored.has(seq));
  return { owed, lost, leaked, duplicates, brokerLost };
}

function isOwed(ledger, m, p, isLive) {
  if (p.from === m.principal) return false;
  if (isLive(p.channel)) return m.mentionsJudged && p.mentions.includes(m.name);
  const open = ledger.openInterval(m.member, p.channel);
  return open !== undefined && p.seq > open.joinCursor;
}

/**
 * Surfaced again although the broker had answered the confirmation of an earlier copy. A post that
 * was first seen live has no copy to confirm: a client that starts anew sees it once more.
 */
function repeated(m, receipts) {
  const sorted = receipts.toSorted((a, b) => a.at - b.at);
  return sorted.flatMap((r, n) => {
    const before = sorted
      .slice(0, n)
      .find((b) => b.confirmed === true && b.seq !== undefined && b.confirmedAt < r.at);
    return before === undefined
      ? []
      : [
          {
            member: m.member,
            marker: r.marker,
            seq: r.seq,
            at: r.at,
            firstAt: before.at,
            confirmedAt: before.confirmedAt,
          },
        ];
  });
}

/**
 * The most duplicates of one member that came from one fault: what it confirmed while nobody
 * listened is handed over again. `hits`: how often the fault struck.
 */
export function duplicatesPerKill(duplicates, kills) {
  const counts = new Map();
  for (const d of duplicates) {
    const n = kills.findLastIndex((k) => k.at - LATE_MS < d.confirmedAt);
    const key = `${n} ${d.member}`;
    counts.set(key, (counts.get(key) ?? 0) + 1 / (kills[n]?.hits ?? 1));
  }
  return Math.ceil(Math.max(0, ...counts.values()));
}
/** A confirmation may be on its way when the fault strikes. */
const LATE_MS = 200;
