import type { Link } from '@plane3/link';

export interface ConnectionListener {
  /** The connection went, or was closed. */
  lost(): void;
  restored(): void;
}

const watched = new WeakMap<Link, Set<ConnectionListener>>();

/**
 * Tells each loss and return of a link's connection; gives a function that stops it. One reader of
 * the client's status events serves all listeners of a link.
 */
export function watchConnection(link: Link, listener: ConnectionListener): () => void {
  let listeners = watched.get(link);
  if (listeners === undefined) {
    listeners = new Set();
    watched.set(link, listeners);
    void follow(link, listeners);
  }
  const all = listeners;
  all.add(listener);
  return () => void all.delete(listener);
}

async function follow(link: Link, listeners: ReadonlySet<ConnectionListener>): Promise<void> {
  const each = (what: keyof ConnectionListener) => {
    // The link reads the same events: by then it knows whether it is connected.
    setImmediate(() => {
      for (const l of [...listeners]) l[what]();
    });
  };
  for await (const s of link.nc.status()) {
    if (s.type === 'disconnect') each('lost');
    else if (s.type === 'reconnect') each('restored');
  }
  each('lost');
}
