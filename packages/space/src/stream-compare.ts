import {
  CAPABILITY_FIELD,
  type Capability,
  type StreamConfig,
  type StreamRole,
  type StreamSpec,
} from './streams.ts';

/** What creating or verifying one stream found. */
export type StreamReport = {
  readonly role: StreamRole;
  readonly name: string;
  readonly account: 'space' | 'vault';
  /** What this broker does not do although it was asked to; the stream serves without. */
  readonly lacks: readonly Capability[];
} & (
  | { readonly kind: 'created' | 'same' | 'repaired' }
  /** Read-only verification only. */
  | { readonly kind: 'missing' }
  /** It is gone beside others that have content: making it anew would hide a loss. */
  | { readonly kind: 'lost'; readonly beside: readonly string[] }
  | {
      readonly kind: 'mismatch';
      readonly differences: readonly Difference[];
      readonly detail: string;
    }
);

export interface Difference {
  readonly field: keyof StreamConfig;
  readonly want: unknown;
  readonly have: unknown;
}

export interface Comparison {
  readonly differences: readonly Difference[];
  readonly lacks: readonly Capability[];
}

const CAPABILITIES = Object.entries(CAPABILITY_FIELD) as [Capability, keyof StreamConfig][];

/**
 * Field by field over what peers rely on. An older broker accepts a field that it does not know
 * and drops it: that is a lacking capability, not a difference.
 */
export function compareStream(
  spec: StreamSpec,
  have: Readonly<Record<string, unknown>>,
): Comparison {
  const differences: Difference[] = [];
  const lacks: Capability[] = [];
  for (const [field, want] of Object.entries(spec.config) as [keyof StreamConfig, unknown][]) {
    const found = have[field];
    if (sameValue(want, found)) continue;
    const capability = CAPABILITIES.find(([, f]) => f === field)?.[0];
    if (capability !== undefined) lacks.push(capability);
    else differences.push({ field, want, have: found ?? null });
  }
  return { differences, lacks };
}

/** An absent flag is false, an absent number its zero. Order of subjects does not matter. */
function sameValue(want: unknown, have: unknown): boolean {
  if (Array.isArray(want)) {
    if (!Array.isArray(have) || have.length !== want.length) return false;
    return [...want].sort().join('\n') === [...have].sort().join('\n');
  }
  if (want === false) return have === false || have === undefined;
  if (want === 0) return have === 0 || have === undefined;
  return want === have;
}

/** Whether the space can serve on these reports; lacking capabilities do not count. */
export const isWhole = (reports: readonly StreamReport[]): boolean =>
  reports.every((r) => r.kind === 'created' || r.kind === 'same' || r.kind === 'repaired');
