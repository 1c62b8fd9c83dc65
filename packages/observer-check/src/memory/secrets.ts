import { done, type Outcome, refused, unknown } from '@plane3/protocol';
import type { SecretName } from '../model.ts';
import type { SecretSource } from '../ports.ts';

/** Bytes; `null`: there, and it may not be read; `'unanswered'`: the store does not answer. */
export type HeldSecret = Uint8Array | null | 'unanswered';

/** An injected store: whatever a host puts in, as the host's own source would give it. */
export class MemorySecrets implements SecretSource {
  readonly #description: string;
  readonly #held: Map<string, HeldSecret>;

  constructor(
    secrets: Partial<Record<SecretName, HeldSecret>> = {},
    description = 'injected store',
  ) {
    this.#held = new Map(Object.entries(secrets));
    this.#description = description;
  }

  /** `undefined` takes it away. */
  set(name: SecretName, what: HeldSecret | undefined): this {
    if (what === undefined) this.#held.delete(name);
    else this.#held.set(name, what);
    return this;
  }

  async read(name: SecretName): Promise<Outcome<Uint8Array | undefined, 'unreadable'>> {
    const what = this.#held.get(name);
    if (what === null) return refused('unreadable', 'no right to it');
    if (what === 'unanswered') return unknown('the store does not answer');
    return done(what);
  }

  where(name: SecretName): string {
    return `${this.#description}: ${name}`;
  }
}
