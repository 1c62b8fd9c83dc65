import type { Readable } from 'node:stream';

/** Lines kept of one process; older ones are dropped and counted. */
const LINES_MAX = 50_000;

/** What a process wrote, line by line, with a way to wait for a line. */
export class Lines {
  readonly all: string[] = [];
  dropped = 0;
  readonly #watchers = new Set<() => void>();
  #closed = false;

  /** Keeps draining: a full pipe would block the process. */
  read(stream: Readable): void {
    let rest = '';
    stream.setEncoding('utf8').on('data', (chunk: string) => {
      const parts = (rest + chunk).split('\n');
      rest = parts.pop() ?? '';
      this.#add(parts);
    });
    stream.on('end', () => {
      if (rest !== '') this.#add([rest]);
      rest = '';
    });
  }

  matching(pattern: RegExp): string[] {
    return this.all.filter((line) => pattern.test(line));
  }

  /** The process ended: whoever still waits for a line is told at once. */
  close(): void {
    this.#closed = true;
    for (const look of [...this.#watchers]) look();
  }

  /**
   * The first line from index `from` on that matches. Rejects with everything that was written
   * when none came in `timeoutMs` or the process ended.
   */
  waitFor(pattern: RegExp, timeoutMs = 15_000, from = 0): Promise<string> {
    return new Promise((resolve, reject) => {
      let seen = from;
      const finish = (): void => {
        this.#watchers.delete(look);
        clearTimeout(timer);
      };
      const fail = (why: string): void => {
        finish();
        reject(new Error(`${why} ${pattern}:\n${this.all.slice(-200).join('\n')}`));
      };
      const look = (): void => {
        for (; seen < this.all.length; seen++) {
          const line = this.all[seen] as string;
          if (!pattern.test(line)) continue;
          finish();
          resolve(line);
          return;
        }
        if (this.#closed) fail('the process ended before a line matched');
      };
      const timer = setTimeout(() => fail(`in ${timeoutMs} ms no line matched`), timeoutMs);
      this.#watchers.add(look);
      look();
    });
  }

  #add(lines: string[]): void {
    this.all.push(...lines);
    for (const look of [...this.#watchers]) look();
    const over = this.all.length - LINES_MAX;
    if (over <= 0 || this.#watchers.size > 0) return; // watchers count by index
    this.all.splice(0, over);
    this.dropped += over;
  }
}
