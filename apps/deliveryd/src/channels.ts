import { type ApiRefusal, BucketView, type Link, type Publisher } from '@plane3/link';
import {
  bucketSubject,
  CHANNEL_DEFAULTS_KEY,
  type ChannelConfig,
  channelConfigSchema,
  type DeliveryClass,
  effectiveClass,
  type Outcome,
  parseRecord,
  type SpaceNames,
} from '@plane3/protocol';

/** The authoritative channel configuration (vault), and its display copy in the space account. */
export class ChannelDirectory {
  readonly view: BucketView<ChannelConfig>;
  readonly #names: SpaceNames;
  /** Changes that wait for their display copy; one per key at most. */
  readonly #due = new Set<string>();
  #display: Publisher | undefined;

  constructor(link: Link, names: SpaceNames, freshnessMs: number) {
    this.#names = names;
    this.view = new BucketView(link, names.buckets.channels, {
      parse: (bytes) => parseRecord(channelConfigSchema, bytes),
      freshnessMs,
    });
    this.view.onChange((key) => {
      this.#due.add(key);
      this.#copy();
    });
  }

  start(): Promise<Outcome<void, ApiRefusal>> {
    return this.view.start();
  }

  get isCurrent(): boolean {
    return this.view.state === 'current';
  }

  classOf(channel: string): DeliveryClass {
    return effectiveClass(
      this.view.get(channel)?.value,
      this.view.get(CHANNEL_DEFAULTS_KEY)?.value,
    );
  }

  /** From now on the space account's copy follows; it gates nothing, so its losses only delay. */
  displayWith(publisher: Publisher): void {
    this.#display = publisher;
    for (const [key] of this.view.entries()) this.#due.add(key);
    this.#copy();
  }

  #copy(): void {
    const display = this.#display;
    if (display === undefined) return;
    for (const key of [...this.#due]) {
      this.#due.delete(key);
      const value = this.view.get(key)?.value;
      const body = value === undefined ? '' : JSON.stringify(value);
      display.publishWith(
        bucketSubject(this.#names.buckets.channels, key),
        new TextEncoder().encode(body),
        value === undefined ? [['KV-Operation', 'DEL']] : undefined,
        (o) => {
          // Once more at the next change; nobody decides by this copy.
          if (o.kind === 'unknown') this.#due.add(key);
        },
      );
    }
  }
}
