import { connect, createServer, type Server, type Socket } from 'node:net';

export type Direction = 'toServer' | 'toClient';

/** Held bytes per connection and direction; beyond it the sender is paused by back-pressure. */
const HELD_BYTES_MAX = 64 * 1024 * 1024;

/** A TCP relay on a port of its own that can make a network misbehave. */
export interface Relay {
  readonly url: string;
  readonly port: number;
  /** Open client connections. */
  readonly connections: number;
  /** Client connections ever accepted. */
  readonly accepted: number;
  /** Everything that went through in a direction, as latin1 text; for "this never left" tests. */
  captured(direction: Direction): string;
  /** Keeps bytes back, in order, until `release`. Default both directions. */
  hold(direction?: Direction): void;
  release(direction?: Direction): void;
  /** Swallows bytes until `pass`. */
  drop(direction?: Direction): void;
  pass(direction?: Direction): void;
  /** Delays every chunk from now on; 0 ends it. */
  delay(ms: number, direction?: Direction): void;
  /** Destroys every connection at once (a reset for both sides). */
  cut(): void;
  /** While refusing, a new connection is destroyed as soon as it is accepted. */
  refuse(refusing: boolean): void;
  stop(): Promise<void>;
}

interface Chunk {
  readonly bytes: Buffer;
  readonly dueMs: number;
}

/** One direction of one connection: a queue in order, drained when nothing holds it. */
class Pipe {
  readonly #from: Socket;
  readonly #to: Socket;
  readonly #mode: Mode;
  readonly #queue: Chunk[] = [];
  #queuedBytes = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(from: Socket, to: Socket, mode: Mode) {
    this.#from = from;
    this.#to = to;
    this.#mode = mode;
    from.on('data', (bytes: Buffer) => this.#take(bytes));
    from.on('end', () => to.end());
    from.on('error', () => {});
    from.on('close', () => {
      clearTimeout(this.#timer);
      to.destroy();
    });
  }

  #take(bytes: Buffer): void {
    if (this.#mode.dropping) return;
    this.#queue.push({ bytes, dueMs: performance.now() + this.#mode.delayMs });
    this.#queuedBytes += bytes.length;
    if (this.#queuedBytes > HELD_BYTES_MAX) this.#from.pause();
    this.drain();
  }

  drain(): void {
    clearTimeout(this.#timer);
    while (!this.#mode.holding) {
      const head = this.#queue[0];
      if (head === undefined) return;
      const waitMs = head.dueMs - performance.now();
      if (waitMs > 0) {
        this.#timer = setTimeout(() => this.drain(), waitMs);
        return;
      }
      this.#queue.shift();
      this.#queuedBytes -= head.bytes.length;
      if (this.#queuedBytes <= HELD_BYTES_MAX) this.#from.resume();
      this.#mode.captured.push(head.bytes);
      this.#to.write(head.bytes);
    }
  }
}

interface Mode {
  holding: boolean;
  dropping: boolean;
  delayMs: number;
  readonly captured: Buffer[];
}

const newMode = (): Mode => ({ holding: false, dropping: false, delayMs: 0, captured: [] });

class TcpRelay implements Relay {
  accepted = 0;
  readonly #modes: Record<Direction, Mode> = { toServer: newMode(), toClient: newMode() };
  readonly #pipes = new Map<Socket, readonly Pipe[]>();
  readonly #server: Server;
  readonly #target: { readonly host: string; readonly port: number };
  #refusing = false;
  port = 0;

  constructor(target: { host: string; port: number }) {
    this.#target = target;
    this.#server = createServer((client) => this.#accept(client));
  }

  get url(): string {
    return `nats://127.0.0.1:${this.port}`;
  }
  get connections(): number {
    return this.#pipes.size;
  }

  async listen(): Promise<void> {
    await new Promise<void>((ok, no) => {
      this.#server.once('error', no);
      this.#server.listen(0, '127.0.0.1', () => ok());
    });
    this.port = (this.#server.address() as { port: number }).port;
  }

  captured(direction: Direction): string {
    return Buffer.concat(this.#modes[direction].captured).toString('latin1');
  }
  hold(direction?: Direction): void {
    this.#set(direction, (m) => {
      m.holding = true;
    });
  }
  release(direction?: Direction): void {
    this.#set(direction, (m) => {
      m.holding = false;
    });
  }
  drop(direction?: Direction): void {
    this.#set(direction, (m) => {
      m.dropping = true;
    });
  }
  pass(direction?: Direction): void {
    this.#set(direction, (m) => {
      m.dropping = false;
    });
  }
  delay(ms: number, direction?: Direction): void {
    this.#set(direction, (m) => {
      m.delayMs = ms;
    });
  }
  cut(): void {
    for (const client of [...this.#pipes.keys()]) client.destroy();
  }
  refuse(refusing: boolean): void {
    this.#refusing = refusing;
  }
  async stop(): Promise<void> {
    this.cut();
    await new Promise<void>((ok) => this.#server.close(() => ok()));
  }

  #accept(client: Socket): void {
    this.accepted++;
    if (this.#refusing) {
      client.on('error', () => {});
      client.destroy();
      return;
    }
    const server = connect(this.#target.port, this.#target.host);
    client.setNoDelay(true);
    server.setNoDelay(true);
    this.#pipes.set(client, [
      new Pipe(client, server, this.#modes.toServer),
      new Pipe(server, client, this.#modes.toClient),
    ]);
    client.on('close', () => this.#pipes.delete(client));
  }

  #set(direction: Direction | undefined, change: (m: Mode) => void): void {
    for (const d of direction === undefined ? (['toServer', 'toClient'] as const) : [direction])
      change(this.#modes[d]);
    for (const pipes of this.#pipes.values()) for (const p of pipes) p.drain();
  }
}

/** A relay in front of `target`, a URL or a port of 127.0.0.1. */
export async function startRelay(target: string | number): Promise<Relay> {
  const url = typeof target === 'number' ? undefined : new URL(target);
  const relay = new TcpRelay(
    url === undefined
      ? { host: '127.0.0.1', port: target as number }
      : { host: url.hostname, port: Number(url.port) },
  );
  await relay.listen();
  return relay;
}
