// Who posts, reads, confirms, goes and comes: our own client, and a foreign agent that knows only
// the wire contract and so has no filter of its own against what must not be released.
import { setTimeout as sleep } from 'node:timers/promises';
import { Caller } from '../../packages/endpoint/dist/nats/index.js';
import { Publisher } from '../../packages/link/dist/index.js';
import { HandOver } from '../../packages/member/dist/hand-over.js';
import { Member } from '../../packages/member/dist/index.js';
import {
  chatSubject,
  decodeFrame,
  HEADER,
  lifecycleKey,
  parseEntryId,
  principalId,
} from '../../packages/protocol/dist/index.js';

const LEAVE_TRIES_MAX = 120;
const ACK = new TextEncoder().encode('+ACK');
const NAK = new TextEncoder().encode('-NAK');
const nowMs = () => performance.now();

export const markerOf = (message) => message.parts?.find((p) => p.kind === 'text')?.text ?? '';

class Person {
  constructor(world, agent, channels) {
    this.world = world;
    this.lifecycle = agent.lifecycle;
    this.member = lifecycleKey(agent.lifecycle);
    this.principal = principalId(agent.lifecycle);
    this.name = agent.lifecycle.actor;
    this.channels = channels;
    this.creds = new TextEncoder().encode(agent.minted.creds);
    /** Leaves channels and comes back to them; who does not is owed the whole run. */
    this.roams = world.roaming.includes(this.name);
    this.errors = new Map();
    this.sessions = 0;
  }
  /** A narrowing hands out a credential of another user: only a new connection can take it. */
  renew(minted) {
    this.creds = new TextEncoder().encode(minted.creds);
    this.renewals = (this.renewals ?? 0) + 1;
  }
  note(what) {
    this.errors.set(what, (this.errors.get(what) ?? 0) + 1);
  }
  openLink() {
    return this.world.mesh.link(this.name, () => this.creds);
  }
  pick() {
    return this.channels[Math.floor(this.world.random() * this.channels.length)];
  }
  /** Sessions until the end; `drain`: one that confirms all there is. */
  async run() {
    while (!this.world.stopping && !this.retired) {
      try {
        await this.session(2_000 + this.world.random() * 6_000, false);
      } catch (e) {
        this.note(`session: ${e.code ?? e}`);
      }
      await sleep(200 + this.world.random() * 2_500);
    }
  }
  async drain(untilMs) {
    this.draining = true;
    while (nowMs() < untilMs && !this.world.drained) {
      try {
        await this.session(untilMs - nowMs(), true);
      } catch (e) {
        this.note(`drain: ${e.code ?? e}`);
        await sleep(300);
      }
    }
  }
  /**
   * Leaves a channel and comes back to it. A leave that nobody could answer for may have been
   * carried out: it is asked for again, in the next session too, until its cursor is known.
   */
  async leaveAndReturn(leave, join, channel = this.pick()) {
    const { ledger } = this.world;
    const { renewals } = this;
    if (ledger.openInterval(this.member, channel) === undefined) return;
    this.leaving = channel;
    for (let n = 0; n < LEAVE_TRIES_MAX; n++) {
      const left = await leave(channel);
      if (left.cursor !== undefined) {
        ledger.left(this.member, channel, left.cursor, nowMs());
        this.leaving = undefined;
        break;
      }
      this.note(`leave: ${left.why}`);
      if (this.renewals !== renewals) return;
      await sleep(400);
    }
    if (!this.draining) await sleep(this.world.random() * 1_500);
    await join(channel);
  }
}

export class ClientPerson extends Person {
  async session(forMs, drain) {
    const { world } = this;
    this.sessions++;
    const link = await this.openLink();
    const options = { space: world.mesh.space, lifecycle: this.lifecycle, link };
    const m = await Member.open(options).catch(async (e) => {
      await link.close();
      throw e;
    });
    const endMs = nowMs() + forMs;
    try {
      if (this.leaving !== undefined)
        await this.leaveAndReturn(
          (c) => this.#leave(m, c),
          (c) => m.join(c),
          this.leaving,
        );
      for (const c of this.channels)
        if (world.ledger.openInterval(this.member, c) === undefined || world.random() < 0.5)
          await m.join(c);
      while (nowMs() < endMs && (drain ? !world.drained : !world.stopping)) {
        await this.#read(m, drain);
        if (!drain && this.roams && world.random() < 0.03)
          await this.leaveAndReturn(
            (c) => this.#leave(m, c),
            (c) => m.join(c),
          );
      }
    } finally {
      this.#learn(m);
      this.counts = m.state().counts;
      // Without a word to anybody, as a killed process would.
      if (!drain && world.random() < 0.35) await link.close();
      await m.close().catch((e) => this.note(`close: ${e.code ?? e}`));
      await link.close();
    }
  }

  #learn(m) {
    for (const c of m.state().channels)
      if (c.durable && c.generation !== undefined)
        this.world.ledger.joined(this.member, c.channel, c);
  }

  async #leave(m, channel) {
    const left = await m.leave(channel);
    if (left.kind === 'done') return { cursor: left.value.leaveCursor };
    return { why: left.kind === 'refused' ? `${left.reason} ${left.detail}` : left.cause };
  }

  async #read(m, drain) {
    const { world } = this;
    this.#learn(m);
    const waitMs = 300;
    const { items } = await m.receive({ maxEntries: drain ? 64 : 16, waitMs });
    for (const item of items) {
      const receipt = world.ledger.received({
        member: this.member,
        channel: item.channel,
        seq: item.kind === 'durable' ? item.seq : undefined,
        mention: world.isLive(item.channel),
        marker: markerOf(item.message),
        at: nowMs(),
      });
      if (!drain && world.random() < 0.08) continue;
      receipt.confirmedAt = nowMs();
      void item.confirm().then((o) => {
        receipt.confirmed = o.kind === 'done';
      });
    }
  }
}

export class ForeignPerson extends Person {
  async session(forMs, drain) {
    const { world } = this;
    const { prefix, streams } = world.mesh.names;
    const { renewals } = this;
    this.sessions++;
    const link = await this.openLink();
    try {
      const opened = await Caller.open({ link, prefix, caller: this.lifecycle });
      if (opened.kind !== 'done') throw new Error(`caller: ${opened.kind}`);
      const caller = opened.value;
      const handOver = new HandOver(link, streams.dlv, this.lifecycle);
      const endMs = nowMs() + forMs;
      let reading = true;
      const reader = (async () => {
        while (reading) {
          const pulled = await handOver.pull({ batch: 16, waitMs: 400 }, (m) =>
            this.#copy(link, m, drain),
          ).answer;
          if (pulled.kind !== 'done') {
            this.note(`pull: ${pulled.reason ?? pulled.cause}`);
            await sleep(200);
          }
        }
      })();
      const join = (c) => this.#join(caller, c);
      if (this.leaving !== undefined)
        await this.leaveAndReturn((c) => this.#leave(caller, c), join, this.leaving);
      for (const c of this.channels)
        if (world.ledger.openInterval(this.member, c) === undefined) await join(c);
      while (
        nowMs() < endMs &&
        this.renewals === renewals &&
        (drain ? !world.drained : !world.stopping)
      ) {
        await sleep(150);
        if (!drain && this.roams && world.random() < 0.04)
          await this.leaveAndReturn((c) => this.#leave(caller, c), join);
      }
      reading = false;
      await reader;
      caller.close();
    } finally {
      await link.close();
    }
  }

  async #join(caller, channel) {
    const answer = await caller.call('join', { channel }, { deadlineMs: 3_000 });
    if (answer.ok) this.world.ledger.joined(this.member, channel, answer.data);
    else this.note(`join: ${answer.code}: ${answer.message}`);
  }

  async #leave(caller, channel) {
    const answer = await caller.call('leave', { channel }, { deadlineMs: 3_000 });
    return answer.ok
      ? { cursor: answer.data.leaveCursor }
      : { why: `${answer.code}: ${answer.message}` };
  }

  #copy(link, m, drain) {
    const { world } = this;
    const frame = decodeFrame(m.data);
    const entry = parseEntryId(m.headers?.get(HEADER.entry) ?? '');
    if (frame === undefined || entry === undefined) return this.note('no frame');
    const receipt = world.ledger.received({
      member: this.member,
      channel: frame.channel,
      seq: entry.seq,
      generation: entry.generation,
      mention: world.isLive(frame.channel),
      marker: markerOf(frame.msg),
      at: nowMs(),
    });
    const dice = drain ? 1 : world.random();
    if (dice < 0.04) return;
    if (dice >= 0.08) receipt.confirmedAt = nowMs();
    try {
      link.publish(m.reply, dice < 0.08 ? NAK : ACK);
    } catch {
      receipt.confirmedAt = undefined;
    }
  }
}

/** Posts at a steady pace: with an id, without one, the same twice without one, and mentions. */
export class Poster {
  constructor(world, agent, channels, perSecond) {
    Object.assign(this, { world, channels, perSecond, count: 0, failed: new Map() });
    this.lifecycle = agent.lifecycle;
    this.creds = new TextEncoder().encode(agent.minted.creds);
  }

  async run(names) {
    const { world } = this;
    const link = await world.mesh.link(this.lifecycle.actor, () => this.creds);
    const publisher = new Publisher(link);
    const open = new Set();
    while (!world.stopping) {
      const p = this.#post(publisher, names).finally(() => open.delete(p));
      open.add(p);
      await sleep((1_000 / this.perSecond) * (0.5 + world.random()));
    }
    await Promise.all(open);
    publisher.close();
    await link.close();
  }

  async #post(publisher, names) {
    const { world } = this;
    const dice = world.random();
    const channel = this.channels[Math.floor(world.random() * this.channels.length)];
    const marker = `${this.lifecycle.actor}-${this.count++}`;
    const id = dice < 0.2 ? '' : marker;
    const mentions = world.isLive(channel)
      ? [names[Math.floor(world.random() * names.length)]]
      : undefined;
    const message = {
      id,
      ts: Date.now(),
      space: world.mesh.space,
      from: { id: principalId(this.lifecycle), name: this.lifecycle.actor },
      channel,
      parts: [{ kind: 'text', text: marker }],
      ...(mentions === undefined ? {} : { mentions }),
    };
    const body = new TextEncoder().encode(JSON.stringify(message));
    const subject = chatSubject(world.mesh.names.prefix, this.lifecycle, channel);
    for (let n = 0; n < (dice < 0.05 ? 2 : 1); n++)
      await this.#store(publisher, subject, body, id, marker);
  }

  /** What has an id is repeated until it is stored; what has none is left where it is. */
  async #store(publisher, subject, body, id, marker) {
    for (let n = 0; n < 40; n++) {
      const headers = id === '' ? [] : [[HEADER.msgId, id]];
      const stored = await publisher.publish(subject, body, headers);
      if (stored.kind === 'done') {
        this.world.ledger.posts.set(marker, stored.value.seq);
        return;
      }
      const why = stored.kind === 'refused' ? stored.reason : 'unknown';
      this.failed.set(why, (this.failed.get(why) ?? 0) + 1);
      if (id === '') return;
      await sleep(250);
    }
  }
}
