import type { Refusal } from './model.ts';
import type { BucketSettings } from './ports.ts';
import { TTL_MS_MIN } from './timing.ts';

/**
 * The bucket's own age is the TTL; there is no second truth. `expectedTtlMs` is what the caller's
 * settings say, where they say anything: a difference is refused with both numbers.
 */
export function checkBucket(
  b: BucketSettings,
  expectedTtlMs: number | undefined,
):
  | { readonly ok: true; readonly ttlMs: number }
  | { readonly ok: false; readonly refusal: Refusal } {
  const wrong = (detail: string) =>
    ({
      ok: false,
      refusal: { kind: 'wrong-settings', detail: `bucket ${b.bucket}: ${detail}` },
    }) as const;
  const wanted = expectedTtlMs ?? TTL_MS_MIN;
  if (b.ttlMs <= 0) return wrong(`rows never end: max age is ${b.ttlMs} ms, needed ${wanted} ms`);
  if (b.ttlMs < TTL_MS_MIN)
    return wrong(`max age is ${b.ttlMs} ms, needed at least ${TTL_MS_MIN} ms`);
  if (expectedTtlMs !== undefined && b.ttlMs !== expectedTtlMs)
    return wrong(`max age is ${b.ttlMs} ms, the settings say ${expectedTtlMs} ms`);
  if (b.markerTtlMs > b.ttlMs)
    return wrong(`marker TTL ${b.markerTtlMs} ms is longer than max age ${b.ttlMs} ms`);
  return { ok: true, ttlMs: b.ttlMs };
}
