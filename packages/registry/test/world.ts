import assert from 'node:assert/strict';
import {
  done,
  type LifecycleKey,
  type Outcome,
  parseLifecycle,
  refused,
  unknown,
} from '@plane3/protocol';
import {
  DEFAULT_SETTINGS,
  type Decision,
  type Event,
  initial,
  type MembershipRow,
  membershipKey,
  type Report,
  type State,
  step,
  type WriteRefusal,
} from '@plane3/registry';

import {
  type AnyAnswer,
  type Copy,
  copyId,
  type Effect,
  type History,
  INCARNATION,
  type Mode,
} from './world-parts.ts';

/**
 * A small reference model round the real machine: a store, a channel stream, a fan-out that
 * decides post by post, a member store, and whatever may happen to an answer. It asserts at
 * every moment what must always hold, and knows what is owed from stream sequences alone.
 */
export class World {
  readonly members: readonly LifecycleKey[];
  readonly channels = ['a', 'b.c'];
  state!: State;
  /** Channel of each post; sequence = index + 1. */
  readonly posts: string[] = [];
  decided = 0;
  cursor = 0;
  readonly inbox = new Map<string, Copy>();
  readonly surfaced = new Set<string>();
  readonly rows = new Map<string, { row: MembershipRow; revision: number }>();
  readonly removed = new Set<string>();
  storeSeq = 0;
  effects: Effect[] = [];
  readonly late: Extract<Decision, { kind: 'write-row' | 'remove-row' }>[] = [];
  echoes: Extract<Event, { kind: 'row-changed' }>[] = [];
  readonly history = new Map<string, Map<number, History>>();
  readonly open = new Map<number, { kind: 'join' | 'leave' | 'retire'; key: string }>();
  readonly answers = new Map<number, AnyAnswer>();
  readonly reports: Report[] = [];
  readonly retired = new Set<LifecycleKey>();
  /** How often the hard cases really occurred. */
  readonly met = new Map<string, number>();
  #processes = 0;
  #settled = new Set<Effect>();
  #nextRequest = 1;

  constructor(members = 2) {
    this.members = Array.from({ length: members }, (_, i) => `local.m${i}.${`${i}`.repeat(26)}`);
    this.boot();
  }

  see(what: string): void {
    this.met.set(what, (this.met.get(what) ?? 0) + 1);
  }

  /** A new process: nothing is known but what the store holds. */
  boot(): void {
    const settings = { ...DEFAULT_SETTINGS, catchUpsMax: 1, closesMax: 1, conflictsMax: 2 };
    this.state = initial(`w${++this.#processes}`, settings);
    this.effects = [];
    this.echoes = [];
    this.open.clear();
    this.decided = this.cursor;
    this.send({ kind: 'loaded', rows: [...this.rows.values()], incarnation: INCARNATION });
  }

  /** Whatever was under way may still happen, in part or later. */
  crash(luck: number): void {
    this.see('crash');
    for (const [i, e] of this.effects.entries()) {
      if (e.kind === 'catch-up' && !this.#settled.has(e)) this.copyRange(e, (luck + i) % 3);
      if (e.kind !== 'write-row' && e.kind !== 'remove-row') continue;
      if ((luck >> i) % 3 === 0) this.commit(e);
      else if ((luck >> i) % 3 === 1) this.late.push(e);
    }
    this.boot();
  }

  send(event: Event): void {
    const { state, decisions } = step(this.state, event);
    this.state = state;
    for (const d of decisions) {
      if (d.kind === 'answer') this.answered(d.request, d.answer);
      else if (d.kind === 'report') this.reports.push(d.report);
      else if (d.kind === 'read-decided') {
        const { key, token } = d;
        const decided = { incarnation: INCARNATION, seq: this.decided };
        this.send({ kind: 'decided-read', key, token, decided });
      } else if (d.kind !== 'changed') this.effects.push(d);
    }
  }

  ask(kind: 'join' | 'leave' | 'retire', member: LifecycleKey, channel: string, o = {}): number {
    const lifecycle = parseLifecycle(member);
    assert.ok(lifecycle !== undefined);
    const request = this.#nextRequest++;
    this.open.set(request, { kind, key: membershipKey(channel, member) });
    if (kind === 'retire') this.retired.add(member);
    const asked = { request, lifecycle };
    if (kind === 'retire') this.send({ kind: 'retire-asked', ...asked });
    else this.send({ kind: `${kind}-asked`, ...asked, channel, ...o });
    return request;
  }

  post(channel: string): number {
    return this.posts.push(channel);
  }

  /** Fan-out decides its next post with the memberships as they are at this moment. */
  decide(): void {
    if (this.decided >= this.posts.length) return;
    const seq = this.decided + 1;
    const channel = this.posts[seq - 1] as string;
    for (const row of this.state.rows.owedIn(channel).values())
      if (row.joinCursor < seq)
        this.store({ member: row.member, channel, seq, generation: row.generation });
    this.decided = seq;
  }

  store(c: Copy): void {
    const id = copyId(c);
    assert.ok(!this.surfaced.has(id), `${id} was confirmed and is written again`);
    const generations = this.history.get(membershipKey(c.channel, c.member));
    const mine = generations?.get(c.generation);
    assert.ok(mine !== undefined, `${id}: no such generation`);
    assert.ok(mine.joinCursor < c.seq, `${id} lies before its join cursor`);
    for (const [g, h] of generations ?? [])
      assert.ok(
        g >= c.generation || (h.leaveCursor ?? 0) < c.seq,
        `${id} belongs to an earlier interval`,
      );
    mine.copied = Math.max(mine.copied, c.seq);
    this.inbox.set(id, c);
  }

  /** A member confirms one of its entries, where that may leave the store. */
  confirm(pick: number): void {
    const may = [...this.inbox.values()].filter((c) => {
      const row = this.rows.get(membershipKey(c.channel, c.member))?.row;
      return row?.state === 'active' && row.generation === c.generation && c.seq <= this.cursor;
    });
    const c = may[pick % Math.max(1, may.length)];
    if (c === undefined) return;
    this.see('confirm');
    this.inbox.delete(copyId(c));
    this.surfaced.add(copyId(c));
  }

  /** Another writer touches the row without changing what it says. */
  rival(member: LifecycleKey, channel: string): void {
    const held = this.rows.get(membershipKey(channel, member));
    if (held === undefined) return;
    this.see('rival');
    this.put(membershipKey(channel, member), { ...held.row, writer: 'rival' });
  }

  put(key: string, row: MembershipRow | undefined): number {
    const revision = ++this.storeSeq;
    if (row === undefined) {
      this.rows.delete(key);
      this.removed.add(key);
    } else {
      this.rows.set(key, { row, revision });
      this.remember(key, row);
    }
    this.echoes.push({ kind: 'row-changed', key, row, revision });
    return revision;
  }

  remember(key: string, row: MembershipRow): void {
    const generations = this.history.get(key) ?? new Map<number, History>();
    this.history.set(key, generations);
    const known = generations.get(row.generation);
    if (known === undefined) {
      for (const g of generations.keys())
        assert.ok(row.generation > g, `${key}: generation ${row.generation} after ${g}`);
      const { joinCursor, leaveCursor, state } = row;
      generations.set(row.generation, { joinCursor, leaveCursor, state, copied: 0 });
      return;
    }
    assert.equal(known.joinCursor, row.joinCursor, 'a join cursor never moves');
    if (known.state === 'closed') assert.equal(known.leaveCursor, row.leaveCursor);
    else assert.ok((known.leaveCursor ?? 0) <= (row.leaveCursor ?? Number.POSITIVE_INFINITY));
    if (row.state === 'closed')
      assert.ok(known.copied <= (row.leaveCursor ?? 0), 'a copy lies behind the leave cursor');
    known.leaveCursor = row.leaveCursor;
    known.state = row.state;
  }

  commit(
    e: Extract<Decision, { kind: 'write-row' | 'remove-row' }>,
  ): Outcome<number, WriteRefusal> {
    if ((this.rows.get(e.key)?.revision ?? 0) !== e.expected) {
      this.see('conflict');
      return refused('conflict');
    }
    return done(this.put(e.key, e.kind === 'write-row' ? e.row : undefined));
  }

  copyRange(e: Extract<Decision, { kind: 'catch-up' }>, most: number): void {
    const { row, from, to } = e;
    let copied = 0;
    for (let seq = from + 1; seq <= to && copied < most; seq++) {
      if (this.posts[seq - 1] !== row.channel) continue;
      const c = { member: row.member, channel: row.channel, seq, generation: row.generation };
      // What is in the store already is found there; nothing confirmed left it while joining.
      if (!this.inbox.has(copyId(c))) this.store(c);
      copied++;
      this.see('caught up');
    }
  }

  echo(): void {
    const e = this.echoes.shift();
    if (e !== undefined) this.send(e);
  }

  landLate(): void {
    const e = this.late.shift();
    if (e === undefined) return;
    // On the wire "must not exist" is refused by a marker: only a live adapter writes over one.
    if (e.expected === 0 && this.removed.has(e.key)) return;
    if (this.commit(e).kind === 'done') this.see('landed late');
  }

  /** The `pick`-th thing under way comes to its end in this way. */
  resolve(pick: number, mode: Mode): void {
    const asked = this.effects.filter((x) => x.kind !== 'bound');
    const e = asked[pick % Math.max(1, asked.length)];
    if (e === undefined) return;
    this.effects.splice(this.effects.indexOf(e), 1);
    const at = { key: e.key, token: e.token };
    switch (e.kind) {
      case 'wait':
        this.send({ ...at, kind: 'wait-over' });
        return;
      case 'ask-right':
        this.send({
          ...at,
          kind: 'right-answered',
          answer: mode === 'refused' ? 'refuse' : mode === 'lost' ? 'cannot-tell' : 'allow',
        });
        return;
      case 'read-positions': {
        const frontier = { incarnation: INCARNATION, seq: this.posts.length };
        const seen = mode === 'lost' ? unknown('lost') : done(frontier);
        const storeSeq = mode === 'late' ? unknown('lost') : done(this.storeSeq);
        this.send({ ...at, kind: 'positions-read', frontier: seen, storeSeq });
        return;
      }
      case 'read-row': {
        const outcome = mode === 'lost' ? unknown('lost') : done(this.rows.get(e.key));
        this.send({ ...at, kind: 'row-read', outcome });
        return;
      }
      case 'write-row':
      case 'remove-row':
        this.send({ ...at, kind: 'write-answered', outcome: this.writeBy(e, mode) });
        return;
      default:
        this.resolveWork(e, mode);
        return;
    }
  }

  /** The time of some request is over. */
  bound(pick: number): void {
    const bounds = this.effects.filter((x) => x.kind === 'bound');
    const e = bounds[pick % Math.max(1, bounds.length)];
    if (e === undefined) return;
    this.effects.splice(this.effects.indexOf(e), 1);
    this.send({ kind: 'bound-over', request: e.request });
  }

  writeBy(
    e: Extract<Decision, { kind: 'write-row' | 'remove-row' }>,
    mode: Mode,
  ): Outcome<number, WriteRefusal> {
    if (mode === 'ok') return this.commit(e);
    if (mode === 'refused') return refused('store-full');
    this.see(`write ${mode}`);
    if (mode === 'landed-unknown') this.commit(e);
    if (mode === 'late') this.late.push(e);
    return unknown('no answer');
  }

  resolveWork(e: Extract<Decision, { kind: 'catch-up' | 'close-boundary' }>, mode: Mode): void {
    const at = { key: e.key, token: e.token };
    if (e.kind === 'catch-up') {
      const kind = 'catch-up-answered';
      if (this.#settled.has(e)) {
        this.send({ ...at, kind, outcome: refused('settled') });
        return;
      }
      this.copyRange(e, mode === 'ok' ? Number.POSITIVE_INFINITY : 1);
      const outcome = mode === 'ok' ? done({}) : unknown('lost');
      this.send({ ...at, kind, outcome });
      return;
    }
    // Settling ends every catch-up of the member that is under way.
    for (const other of this.effects)
      if (other.kind === 'catch-up' && other.row.member === e.member) this.#settled.add(other);
    let disposed = 0;
    for (const [id, c] of this.inbox) {
      if (c.member !== e.member || c.channel !== e.channel || c.generation !== e.generation)
        continue;
      if (mode === 'refused' && disposed > 0) break;
      this.inbox.delete(id);
      disposed++;
      this.see('disposed');
    }
    const outcome = mode === 'ok' ? done({ disposed }) : unknown('lost');
    this.send({ ...at, kind: 'boundary-closed', outcome });
  }

  answered(request: number, a: AnyAnswer): void {
    const asked = this.open.get(request);
    assert.ok(asked !== undefined, `request ${request} is answered twice or was never asked`);
    this.open.delete(request);
    this.answers.set(request, a);
    if (!a.ok) {
      this.see(`${asked.kind} ${a.code} ${a.outcome}`);
      return;
    }
    this.see(`${asked.kind} done`);
    if ('durable' in a.data) this.checkJoined(asked.key, a.data.generation, a.data.joinCursor);
    else if ('leaveCursor' in a.data) this.checkLeft(asked.key);
  }

  /** Durable is only said when it is: all that fan-out will not decide any more is there. */
  checkJoined(key: string, generation: number, joinCursor: number): void {
    assert.equal(this.history.get(key)?.get(generation)?.joinCursor, joinCursor);
    const [channel, member] = key.split('/') as [string, string];
    const { row } = this.rows.get(key) ?? {};
    if (row?.state !== 'active' || row.generation !== generation) return; // changed meanwhile
    for (const c of this.owed(member, channel, generation, joinCursor, this.decided))
      assert.ok(this.inbox.has(copyId(c)) || this.surfaced.has(copyId(c)), `${copyId(c)} is owed`);
  }

  checkLeft(key: string): void {
    for (const c of this.inbox.values())
      assert.notEqual(membershipKey(c.channel, c.member), key, 'an entry outlives the leave');
  }

  owed(member: string, channel: string, generation: number, from: number, to: number): Copy[] {
    const out: Copy[] = [];
    for (let seq = from + 1; seq <= to; seq++)
      if (this.posts[seq - 1] === channel) out.push({ member, channel, seq, generation });
    return out;
  }

  /** Everything that can still happen happens well; then the stores must say the same as the streams. */
  settle(): void {
    for (let round = 0; round < 400; round++) {
      while (this.late.length > 0) this.landLate();
      while (this.echoes.length > 0) this.echo();
      if (this.effects.every((e) => e.kind === 'bound')) break;
      this.resolve(0, 'ok');
      this.decide();
    }
    while (this.decided < this.posts.length) this.decide();
    assert.equal(this.state.tasks.size, 0, 'something is left half done');
    assert.equal(this.open.size, 0, 'a request is unanswered');
    assert.equal(this.state.retirements.size, 0);
    assert.equal(this.state.gates['catch-up'].inside.size + this.state.gates.close.inside.size, 0);
    const owed = new Set<string>();
    for (const [key, { row, revision }] of this.rows) {
      assert.deepEqual(this.state.rows.get(key), { row, revision }, 'memory follows the store');
      assert.ok(row.state === 'active' || row.state === 'closed', `${key} is ${row.state}`);
      if (row.state !== 'active') continue;
      const { member, channel, generation, joinCursor } = row;
      for (const c of this.owed(member, channel, generation, joinCursor, this.posts.length))
        owed.add(copyId(c));
    }
    assert.equal(this.state.rows.size, this.rows.size);
    for (const id of owed)
      assert.ok(this.inbox.has(id) !== this.surfaced.has(id), `${id} is owed and not there`);
    for (const id of this.inbox.keys()) assert.ok(owed.has(id), `${id} is there and not owed`);
  }
}
