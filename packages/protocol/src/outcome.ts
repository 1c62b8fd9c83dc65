/**
 * What a port call answers. A port never throws for something that can happen in service.
 *
 * - `done`: it happened, and here is the result.
 * - `refused`: it did not happen and the reason is known; asking again changes nothing by itself.
 * - `unknown`: nobody can say. Every timeout and every lost connection is `unknown`: the effect
 *   may have happened, may happen later, or never. The caller reads back or repeats under the
 *   same id; it never takes `unknown` for a failure or for a success.
 */
export type Outcome<T, R extends string = string> =
  | { readonly kind: 'done'; readonly value: T }
  | { readonly kind: 'refused'; readonly reason: R; readonly detail: string }
  | { readonly kind: 'unknown'; readonly cause: string };

export type Refused<R extends string = string> = Extract<Outcome<never, R>, { kind: 'refused' }>;
export type Unknown = Extract<Outcome<never>, { kind: 'unknown' }>;

export const done = <T>(value: T): { readonly kind: 'done'; readonly value: T } => ({
  kind: 'done',
  value,
});

export const refused = <R extends string>(reason: R, detail = ''): Refused<R> => ({
  kind: 'refused',
  reason,
  detail,
});

export const unknown = (cause: string): Unknown => ({ kind: 'unknown', cause });
