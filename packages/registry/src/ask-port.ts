import { done, unknown } from '@plane3/protocol';
import type { Decision, Event, KeyEvent } from './model.ts';
import type { RegistryPorts } from './ports.ts';

/** Decisions that a port answers, each by exactly one event. */
export type Question = Extract<
  Decision,
  {
    kind:
      | 'ask-right'
      | 'read-positions'
      | 'write-row'
      | 'remove-row'
      | 'read-row'
      | 'catch-up'
      | 'close-boundary';
  }
>;

/** A port that throws is a defect of its adapter; what it did is `unknown`, like a lost answer. */
async function guarded<T>(call: () => Promise<T>, otherwise: (cause: string) => T): Promise<T> {
  try {
    return await call();
  } catch (e) {
    return otherwise(`the port threw: ${e instanceof Error ? e.message : String(e)}`);
  }
}

export async function askPort(ports: RegistryPorts, d: Question): Promise<Event> {
  const at: KeyEvent = { key: d.key, token: d.token };
  const { store } = ports;
  switch (d.kind) {
    case 'ask-right': {
      const ask = (): ReturnType<typeof ports.rights.ask> => ports.rights.ask(d.member, d.channel);
      const answer = await guarded(ask, () => 'cannot-tell' as const);
      return { ...at, kind: 'right-answered', answer };
    }
    case 'read-positions': {
      const [frontier, storeSeq] = await Promise.all([
        guarded(() => ports.frontier.read(d.behind), unknown),
        d.withStoreSeq ? guarded(() => store.lastSeq(), unknown) : done(0),
      ]);
      return { ...at, kind: 'positions-read', frontier, storeSeq };
    }
    case 'write-row': {
      const outcome = await guarded(() => store.write(d.key, d.row, d.expected), unknown);
      return { ...at, kind: 'write-answered', outcome };
    }
    case 'remove-row': {
      const outcome = await guarded(() => store.remove(d.key, d.expected), unknown);
      return { ...at, kind: 'write-answered', outcome };
    }
    case 'read-row':
      return { ...at, kind: 'row-read', outcome: await guarded(() => store.read(d.key), unknown) };
    case 'catch-up': {
      const { row, from, to } = d;
      const outcome = await guarded(() => ports.catchUp.copy({ row, from, to }), unknown);
      return { ...at, kind: 'catch-up-answered', outcome };
    }
    case 'close-boundary': {
      const { member, channel, generation, leaveCursor } = d;
      const boundary = { member, channel, generation, leaveCursor };
      const outcome = await guarded(() => ports.boundary.close(boundary), unknown);
      return { ...at, kind: 'boundary-closed', outcome };
    }
  }
}
