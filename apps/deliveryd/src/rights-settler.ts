import { type LifecycleKey, parseLifecycle } from '@plane3/protocol';
import type { Reader } from '@plane3/reader';
import type { Registry } from '@plane3/registry';
import type { Logger } from './log.ts';
import type { RightsDirectory } from './rights.ts';

/** A failed clean-up of a retired member is tried again after this. */
const RETRY_MS = 1_000;

/**
 * Applies each change of a rights row to what is handed over already, and cleans up after
 * retirements. `settled` is what an operator waits for before it says that a right is gone.
 */
export class RightsSettler {
  readonly #rights: RightsDirectory;
  readonly #reader: Reader;
  readonly #registry: Registry;
  readonly #log: Logger;
  /** Work under way per member; the next change of that member waits for it. */
  readonly #open = new Map<LifecycleKey, Promise<void>>();
  #off: () => void = () => {};
  #stopped = false;

  constructor(rights: RightsDirectory, reader: Reader, registry: Registry, log: Logger) {
    this.#rights = rights;
    this.#reader = reader;
    this.#registry = registry;
    this.#log = log;
  }

  /** Retirements that happened while no daemon ran are cleaned up first. */
  start(): void {
    this.#off = this.#rights.view.onChange((member) => this.#changed(member));
    for (const [member, { value }] of this.#rights.view.entries())
      if (value.retiredAt !== undefined) this.#changed(member);
  }

  stop(): void {
    this.#stopped = true;
    this.#off();
  }

  /** The view reached the revision and everything that changes up to it caused is done. */
  async settled(revision: number, timeoutMs: number): Promise<boolean> {
    const untilMs = performance.now() + timeoutMs;
    if (!(await this.#rights.view.waitFor(revision, timeoutMs))) return false;
    const work = Promise.all([...this.#open.values()]).then(() => true);
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<false>((ok) => {
      timer = setTimeout(() => ok(false), Math.max(0, untilMs - performance.now()));
    });
    const settled = await Promise.race([work, late]);
    clearTimeout(timer);
    return settled && !this.#stopped;
  }

  #changed(member: LifecycleKey): void {
    const before = this.#open.get(member) ?? Promise.resolve();
    const work = before.then(() => this.#apply(member));
    this.#open.set(member, work);
    void work.then(() => {
      if (this.#open.get(member) === work) this.#open.delete(member);
    });
  }

  /** Repeats until it is done: until then nothing says that the change is in force. */
  async #apply(member: LifecycleKey): Promise<void> {
    while (!this.#stopped) {
      const why = await this.#once(member);
      if (why === undefined) return;
      this.#log.warn(
        { event: 'rights.unsettled', component: 'rights', member, why },
        'tried again',
      );
      await new Promise((ok) => setTimeout(ok, RETRY_MS));
    }
  }

  async #once(member: LifecycleKey): Promise<string | undefined> {
    await this.#reader.rightsChanged(member, this.#rights.revisionOf(member));
    const row = this.#rights.rowOf(member);
    const lifecycle = parseLifecycle(member);
    if (row?.retiredAt === undefined || lifecycle === undefined) return undefined;
    const retired = await this.#registry.retire(lifecycle);
    if (!retired.ok) return retired.detail;
    const disposed = await this.#reader.dispose({ member, reason: 'retired' });
    if (disposed.kind !== 'done')
      return disposed.kind === 'unknown' ? disposed.cause : disposed.detail;
    const count = disposed.value + retired.data.disposed;
    if (count > 0)
      this.#log.info(
        {
          event: 'member.disposed',
          component: 'reader',
          member,
          disposed: count,
          reason: 'retired',
        },
        'entries of a retired member disposed of',
      );
    return undefined;
  }
}
