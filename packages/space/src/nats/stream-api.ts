import { type ApiRefusal, JetStreamApi, type Link } from '@plane3/link';
import { done, type Outcome } from '@plane3/protocol';
import type { StreamConfig } from '../streams.ts';

export interface StreamState {
  readonly created: string;
  readonly config: Readonly<Record<string, unknown>>;
  readonly messages: number;
}

interface StreamAnswer {
  readonly created: string;
  readonly config: Readonly<Record<string, unknown>>;
  readonly state: { readonly messages: number };
}

/** The calls that make and read back a stream. */
export class StreamApi {
  readonly #api: JetStreamApi;

  constructor(link: Link) {
    this.#api = new JetStreamApi(link);
  }

  info(name: string): Promise<Outcome<StreamState, ApiRefusal>> {
    return this.#call(`STREAM.INFO.${name}`);
  }

  create(config: StreamConfig): Promise<Outcome<StreamState, ApiRefusal>> {
    return this.#call(`STREAM.CREATE.${config.name}`, config);
  }

  update(config: StreamConfig): Promise<Outcome<StreamState, ApiRefusal>> {
    return this.#call(`STREAM.UPDATE.${config.name}`, config);
  }

  async #call(operation: string, config?: StreamConfig): Promise<Outcome<StreamState, ApiRefusal>> {
    const answer = await this.#api.call<StreamAnswer>(operation, config);
    if (answer.kind !== 'done') return answer;
    const { created, config: have, state } = answer.value;
    return done({ created, config: have, messages: state.messages });
  }
}
