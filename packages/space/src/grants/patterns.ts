import { isChannelPattern, Plane3Error, patternContains, patternsOverlap } from '@plane3/protocol';

/**
 * What the broker makes of a channel pattern. It compares the subject of a subscription, or of a
 * consumer's filter, with the allowed ones token by token and takes a literal `>` for a token that
 * `*` covers [tried]: who may subscribe `team.*` may subscribe `team.>` too and would read
 * `team.a.b`. Only a pattern that ends in `*` is widened so.
 */
export const endsInStar = (pattern: string): boolean => pattern === '*' || pattern.endsWith('.*');

/**
 * A denied subject is filtered at delivery also from a wider subscription, so a subscription can
 * be narrowed again. A consumer's filter cannot: no history for a pattern that ends in `*`.
 */
export const historyGrantable = (pattern: string): boolean => !endsInStar(pattern);

export const CHANNEL_PATTERNS_MAX = 500;

/**
 * The patterns without those that another one contains, in order.
 * @throws Plane3Error `settings-invalid` for a malformed one, for too many, and for a pair that
 * the broker cannot enforce together: one that ends in `*` beside a deeper channel
 */
export function enforceable(patterns: readonly string[]): string[] {
  const bad = patterns.find((p) => !isChannelPattern(p));
  if (bad !== undefined) throw invalid(`not a channel pattern: ${bad}`, { pattern: bad });
  const distinct = [...new Set(patterns)];
  if (distinct.length > CHANNEL_PATTERNS_MAX)
    throw invalid(`more than ${CHANNEL_PATTERNS_MAX} channel patterns`, {
      patterns: distinct.length,
    });
  const kept = distinct
    .filter((p) => !distinct.some((o) => o !== p && patternContains(o, p)))
    .sort();
  for (const star of kept.filter(endsInStar)) {
    const deeper = kept.find((p) => p !== star && patternsOverlap(p, `${star}.>`));
    if (deeper !== undefined)
      throw invalid(
        `the broker cannot grant ${star} and ${deeper} together: name the channels of ${star}`,
        { patterns: [star, deeper] },
      );
  }
  return kept;
}

const invalid = (detail: string, context: Record<string, unknown>): Plane3Error =>
  new Plane3Error('settings-invalid', { detail, context });
