import type { Admission } from '../model.ts';
import type { Timers } from '../ports.ts';
import { type AdmitObserverOptions, admitObserver } from '../runtime.ts';
import { jwtDecoder } from './decoder.ts';

export type CheckObserverOptions = Omit<AdmitObserverOptions, 'decoder' | 'timers'>;

const systemTimers: Timers = {
  after: (ms, f) => {
    const timer = setTimeout(f, ms);
    return () => clearTimeout(timer);
  },
};

/** The admission check with the real decoder and a bound on each read. */
export const checkObserver = (o: CheckObserverOptions): Promise<Admission> =>
  admitObserver({ ...o, decoder: jwtDecoder, timers: systemTimers });
