import { unknown } from '@plane3/protocol';
import { initial, step } from './machine.ts';
import type { Admission, Found, Question, SecretName, SecretRead } from './model.ts';
import type { Decoder, SecretSource, Timers } from './ports.ts';

/** A store that takes longer for one secret does not answer. */
export const SECRET_READ_MS_MAX = 5_000;

export interface AdmitObserverOptions extends Question {
  /** The very source that scans will use. */
  readonly secrets: SecretSource;
  readonly decoder: Decoder;
  /** Bounds each read; without it the source's own bound holds. */
  readonly timers?: Timers;
}

/**
 * Reads the pair from its source and decides, before the endpoint is built and the lease claimed
 * (I32). Never throws for what a source may hold.
 */
export async function admitObserver(o: AdmitObserverOptions): Promise<Admission> {
  let { state, decisions } = initial({ daemonAccount: o.daemonAccount, nowMs: o.nowMs });
  for (;;) {
    const [d] = decisions;
    if (d === undefined) throw new TypeError('the admission neither reads nor decides');
    if (d.kind === 'decide') return d.admission;
    const found = await find(o, d.name);
    ({ state, decisions } = step(state, { kind: 'found', name: d.name, found }));
  }
}

async function find(o: AdmitObserverOptions, name: SecretName): Promise<Found> {
  return { read: await readSecret(o, name), where: o.secrets.where(name) };
}

async function readSecret(o: AdmitObserverOptions, name: SecretName): Promise<SecretRead> {
  const answer = await within(o.timers, o.secrets.read(name));
  if (answer.kind === 'refused') return { kind: 'unreadable', why: answer.detail };
  if (answer.kind === 'unknown') return { kind: 'unreadable', why: answer.cause };
  if (answer.value === undefined) return { kind: 'absent' };
  const decoded = await o.decoder.decode(answer.value);
  if (decoded.kind === 'done') return { kind: 'credential', claims: decoded.value };
  const why = decoded.kind === 'refused' ? decoded.detail : decoded.cause;
  return { kind: 'undecodable', why };
}

type Answer = Awaited<ReturnType<SecretSource['read']>>;

function within(timers: Timers | undefined, call: Promise<Answer>): Promise<Answer> {
  return new Promise((ok) => {
    const cancel = timers?.after(SECRET_READ_MS_MAX, () =>
      ok(unknown(`no answer in ${SECRET_READ_MS_MAX} ms`)),
    );
    const end = (o: Answer): void => {
      cancel?.();
      ok(o);
    };
    call.then(end, (e: unknown) => end(unknown(e instanceof Error ? e.message : String(e))));
  });
}
