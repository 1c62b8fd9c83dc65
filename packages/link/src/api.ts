import type { ConsumerConfig, ConsumerInfo, StreamInfo } from '@nats-io/jetstream';
import type { Msg } from '@nats-io/nats-core';
import { done, type Outcome, refused, unknown } from '@plane3/protocol';
import { API_CODE, type ApiError, apiRefusalOf, detailOf, isTransient } from './api-codes.ts';
import { type BatchRead, DirectBatch } from './direct-batch.ts';
import type { Link } from './link.ts';
import {
  type Replies,
  type ReplyFailure,
  type ReplySink,
  type Request,
  repliesOf,
} from './replies.ts';
import { type ApiMessage, fromApi, type StoredMessage } from './stored-message.ts';

export type ApiRefusal = 'not-found' | 'permission-denied' | 'conflict' | 'rejected';

/** A consumer without a name would be one that nobody can find again. */
export type NamedConsumerConfig = Partial<ConsumerConfig> &
  ({ durable_name: string } | { name: string });

export const API_TIMEOUT_MS = 2_000;
const NO_RESPONDERS = 503;
/** A page holds up to 100,000 subjects. */
const SUBJECT_PAGES_MAX = 100;

type Settle = (o: Outcome<Msg, ApiRefusal>) => void;

/**
 * JetStream's API as outcomes. Answered by the stream's leader, bounded in time. A denied subject
 * answers `permission-denied` as soon as the broker says so, not after the timeout.
 */
export class JetStreamApi implements ReplySink<Settle> {
  readonly #replies: Replies;
  readonly #timeoutMs: number;

  constructor(link: Link, o: { readonly timeoutMs?: number } = {}) {
    this.#replies = repliesOf(link);
    this.#timeoutMs = o.timeoutMs ?? API_TIMEOUT_MS;
  }

  /** Any call: `operation` is what follows `$JS.API.`. */
  async call<T>(operation: string, payload?: unknown): Promise<Outcome<T, ApiRefusal>> {
    const answer = await this.#ask<T>(operation, payload);
    return answer.kind === 'error' ? outcomeOfError(answer.error) : answer;
  }

  /** With `subjectsFilter` the state counts every stored subject that matches, all pages. */
  async streamInfo(
    stream: string,
    o: { readonly subjectsFilter?: string } = {},
  ): Promise<Outcome<StreamInfo, ApiRefusal>> {
    const operation = `STREAM.INFO.${stream}`;
    if (o.subjectsFilter === undefined) return this.call(operation);
    const subjects: Record<string, number> = {};
    let offset = 0;
    for (let page = 0; page < SUBJECT_PAGES_MAX; page++) {
      const answer = await this.call<StreamInfo>(operation, {
        subjects_filter: o.subjectsFilter,
        offset,
      });
      if (answer.kind !== 'done') return answer;
      const found = answer.value.state.subjects ?? {};
      Object.assign(subjects, found);
      offset += Object.keys(found).length;
      if (offset >= answer.value.total || Object.keys(found).length === 0) {
        answer.value.state.subjects = subjects;
        return answer;
      }
    }
    return unknown('too many subjects');
  }

  /** `undefined` = proved absent. */
  lastOf(stream: string, subject: string): Promise<Outcome<StoredMessage | undefined, ApiRefusal>> {
    return this.#read(stream, { last_by_subj: subject });
  }

  async atSeq(
    stream: string,
    seq: number,
  ): Promise<Outcome<StoredMessage | undefined, ApiRefusal>> {
    return seq < 1 ? done(undefined) : this.#read(stream, { seq });
  }

  /** The first message of `subject`, which may hold wildcards, at or above `fromSeq`. */
  nextOf(
    stream: string,
    subject: string,
    fromSeq: number,
  ): Promise<Outcome<StoredMessage | undefined, ApiRefusal>> {
    return this.#read(stream, { seq: Math.max(fromSeq, 1), next_by_subj: subject });
  }

  /**
   * Up to `batchMax` messages of `subject` from `fromSeq` on, in one request (the stream needs
   * `allow_direct`). `complete`: the broker said that no further one exists. An answer that is
   * cut short or has a hole is `unknown`, never a shorter list. On a replicated stream any
   * replica answers, so the end may be an older one.
   */
  batchOf(
    stream: string,
    subject: string,
    fromSeq: number,
    batchMax: number,
    bytesMax?: number,
  ): Promise<Outcome<BatchRead, ApiRefusal>> {
    return new Promise((ok) => {
      const payload = {
        seq: Math.max(fromSeq, 1),
        next_by_subj: subject,
        batch: batchMax,
        ...(bytesMax === undefined ? {} : { max_bytes: bytesMax }),
      };
      const sink = new DirectBatch(ok);
      this.#replies.send(this.#request(`DIRECT.GET.${stream}`, payload), undefined, sink, sink);
    });
  }

  /** False: it was not there. */
  async deleteSeq(stream: string, seq: number): Promise<Outcome<boolean, ApiRefusal>> {
    const answer = await this.#ask(`STREAM.MSG.DELETE.${stream}`, { seq, no_erase: true });
    if (answer.kind === 'done') return done(true);
    if (answer.kind !== 'error') return answer;
    const { error } = answer;
    if (error.err_code === API_CODE.sequenceNotFound) return done(false);
    if (error.err_code !== API_CODE.messageDeleteFailed) return outcomeOfError(error);
    // One code for "not there" and for a store that failed: look.
    const there = await this.atSeq(stream, seq);
    if (there.kind !== 'done') return there;
    return there.value === undefined ? done(false) : outcomeOfError(error);
  }

  /** Removes the messages of `subject` below `upToSeq` (all without it); answers how many. */
  async purge(
    stream: string,
    o: { readonly subject: string; readonly upToSeq?: number },
  ): Promise<Outcome<number, ApiRefusal>> {
    const answer = await this.call<{ purged: number }>(`STREAM.PURGE.${stream}`, {
      filter: o.subject,
      ...(o.upToSeq === undefined ? {} : { seq: o.upToSeq }),
    });
    return answer.kind === 'done' ? done(answer.value.purged) : answer;
  }

  consumerInfo(stream: string, name: string): Promise<Outcome<ConsumerInfo, ApiRefusal>> {
    return this.call(`CONSUMER.INFO.${stream}.${name}`);
  }

  /** The same configuration again is `done`, another one under the name is `conflict`. */
  consumerCreate(
    stream: string,
    config: NamedConsumerConfig,
  ): Promise<Outcome<ConsumerInfo, ApiRefusal>> {
    return this.#consumer(stream, config, 'create');
  }

  /** Changes what is given; the rest of the configuration and the position stay. */
  async consumerUpdate(
    stream: string,
    name: string,
    config: Partial<ConsumerConfig>,
  ): Promise<Outcome<ConsumerInfo, ApiRefusal>> {
    const now = await this.consumerInfo(stream, name);
    if (now.kind !== 'done') return now; // the broker takes a missing setting for its default
    return this.#consumer(stream, { ...now.value.config, ...config, name }, 'update');
  }

  /** False: there was none. */
  async consumerDelete(stream: string, name: string): Promise<Outcome<boolean, ApiRefusal>> {
    const answer = await this.call<unknown>(`CONSUMER.DELETE.${stream}.${name}`);
    if (answer.kind === 'done') return done(true);
    return answer.kind === 'refused' && answer.reason === 'not-found' ? done(false) : answer;
  }

  #consumer(
    stream: string,
    config: NamedConsumerConfig,
    action: 'create' | 'update',
  ): Promise<Outcome<ConsumerInfo, ApiRefusal>> {
    const name = config.name ?? config.durable_name;
    // A single filter stands in the subject, so that grants can pin it.
    const filter = config.filter_subject === undefined ? '' : `.${config.filter_subject}`;
    const payload = { stream_name: stream, config, action };
    return this.call(`CONSUMER.CREATE.${stream}.${name}${filter}`, payload);
  }

  async #read(
    stream: string,
    query: object,
  ): Promise<Outcome<StoredMessage | undefined, ApiRefusal>> {
    const answer = await this.#ask<{ message: ApiMessage }>(`STREAM.MSG.GET.${stream}`, query);
    if (answer.kind === 'done') return done(fromApi(answer.value.message));
    if (answer.kind !== 'error') return answer;
    return answer.error.err_code === API_CODE.noMessageFound
      ? done(undefined)
      : outcomeOfError(answer.error);
  }

  /** The broker's error is kept apart, for calls in which one of its codes is an answer. */
  async #ask<T>(
    operation: string,
    payload?: unknown,
  ): Promise<Outcome<T, ApiRefusal> | { readonly kind: 'error'; readonly error: ApiError }> {
    const answer = await new Promise<Outcome<Msg, ApiRefusal>>((ok) =>
      this.#replies.send(this.#request(operation, payload), undefined, this, ok),
    );
    if (answer.kind !== 'done') return answer;
    try {
      const value = JSON.parse(answer.value.string()) as { readonly error?: ApiError };
      return value.error === undefined ? done(value as T) : { kind: 'error', error: value.error };
    } catch {
      return unknown('malformed answer');
    }
  }

  #request(operation: string, payload: unknown): Request {
    return {
      subject: `$JS.API.${operation}`,
      body: payload === undefined ? new Uint8Array(0) : Buffer.from(JSON.stringify(payload)),
      timeoutMs: this.#timeoutMs,
    };
  }

  /** @internal */
  onReply(settle: Settle, message: Msg): boolean {
    if (message.data.length === 0 && message.headers?.code === NO_RESPONDERS)
      settle(unknown('no JetStream answers')); // none for this account, or not up yet
    else settle(done(message));
    return true;
  }

  /** @internal */
  onFailure(settle: Settle, failure: ReplyFailure, detail: string): void {
    settle(failure === 'denied' ? refused('permission-denied', detail) : unknown(failure));
  }
}

const outcomeOfError = (e: ApiError): Outcome<never, ApiRefusal> =>
  isTransient(e) ? unknown(detailOf(e)) : refused(apiRefusalOf(e), detailOf(e));
