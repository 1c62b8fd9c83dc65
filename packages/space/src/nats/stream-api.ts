import { API_TIMEOUT_MS, type ApiRefusal, type Link, translate } from '@plane3/link';
import { done, type Outcome, refused, unknown } from '@plane3/protocol';
import type { StreamConfig } from '../streams.ts';

/** Code of "stream not found" of the broker's API. */
const STREAM_NOT_FOUND = 10059;
/** No leader, not ready, out of service for the moment. */
const TRANSIENT = new Set([10008, 10009, 10039, 10076]);

export interface StreamState {
  readonly created: string;
  readonly config: Readonly<Record<string, unknown>>;
  readonly messages: number;
  readonly lastSeq: number;
}

/** The three calls that make and read back a stream. Everything else is `JetStreamApi`. */
export class StreamApi {
  readonly #link: Link;

  constructor(link: Link) {
    this.#link = link;
  }

  info(name: string): Promise<Outcome<StreamState, ApiRefusal>> {
    return this.#call(`STREAM.INFO.${name}`, '');
  }

  create(config: StreamConfig): Promise<Outcome<StreamState, ApiRefusal>> {
    return this.#call(`STREAM.CREATE.${config.name}`, JSON.stringify(config));
  }

  update(config: StreamConfig): Promise<Outcome<StreamState, ApiRefusal>> {
    return this.#call(`STREAM.UPDATE.${config.name}`, JSON.stringify(config));
  }

  async #call(verb: string, body: string): Promise<Outcome<StreamState, ApiRefusal>> {
    if (!this.#link.connected) return unknown('disconnected');
    try {
      const answer = await this.#link.nc.request(`$JS.API.${verb}`, body, {
        timeout: API_TIMEOUT_MS,
      });
      return parseAnswer(answer.string());
    } catch (e) {
      return translate(e);
    }
  }
}

function parseAnswer(text: string): Outcome<StreamState, ApiRefusal> {
  const answer = JSON.parse(text) as {
    error?: { err_code?: number; description?: string };
    created?: string;
    config?: Record<string, unknown>;
    state?: { messages: number; last_seq: number };
  };
  const code = answer.error?.err_code;
  if (answer.error !== undefined) {
    const detail = `${answer.error.description ?? ''} (${code})`;
    if (code === STREAM_NOT_FOUND) return refused('not-found', detail);
    return code !== undefined && TRANSIENT.has(code)
      ? unknown(detail)
      : refused('rejected', detail);
  }
  return done({
    created: answer.created ?? '',
    config: answer.config ?? {},
    messages: answer.state?.messages ?? 0,
    lastSeq: answer.state?.last_seq ?? 0,
  });
}
