import type { FenceEnd } from './establish.ts';
import type { ExpiryVerdict } from './expiry.ts';
import type { DoubtReason, How, LossReason, Phase, Refusal, Timing } from './model.ts';
import type { Clock, FencePort, HostProbe, LeaseHost, LeaseRowPort, Timers } from './ports.ts';

export interface LeasePorts {
  readonly row: LeaseRowPort;
  /** One per stream that takes fenced writes. */
  readonly fences: { readonly inbox: FencePort; readonly dlv: FencePort };
  readonly hostProbe: HostProbe;
  readonly host: LeaseHost;
  readonly clock: Clock;
  readonly timers: Timers;
}

export interface LeaseSettings {
  readonly holder: string;
  /** New for every start of a process. */
  readonly incarnation: string;
  /** What the caller believes the TTL to be; a difference to the bucket is refused. */
  readonly expectedTtlMs?: number;
  /** For tests that need other proportions. */
  readonly timing?: Partial<Omit<Timing, 'ttlMs'>>;
}

export type Acquired =
  | {
      readonly kind: 'held';
      readonly revision: number;
      readonly how: How;
      readonly ttlMs: number;
    }
  | { readonly kind: 'refused'; readonly refusal: Refusal };

export type Fenced =
  | {
      readonly kind: 'fenced';
      /** Sequences that every write into INBOX and DLV names from now on. */
      readonly inbox: number;
      readonly dlv: number;
      readonly leaseRevision: number;
    }
  | {
      readonly kind: 'refused';
      readonly reason: Extract<FenceEnd, { kind: 'refused' }>['reason'] | 'lease-in-doubt';
      readonly detail: string;
    };

export type LeaseNotice =
  | { readonly kind: 'doubt'; readonly reason: DoubtReason }
  /** Mine again, unready: fence, start and become ready anew. */
  | { readonly kind: 'regained'; readonly revision: number; readonly how: How }
  /** For good: release, and end with the reason. */
  | { readonly kind: 'lost'; readonly reason: LossReason; readonly detail: string }
  | { readonly kind: 'renewed'; readonly revision: number; readonly ready: boolean }
  | { readonly kind: 'expiry'; readonly verdict: ExpiryVerdict };

export interface LeaseStatus {
  readonly phase: Phase;
  readonly incarnation: string;
  readonly ttlMs: number | undefined;
  readonly ready: boolean;
  readonly revision: number | undefined;
  /** What is left of the trust window; 0 or less: not trusted. */
  readonly trustedForMs: number;
  readonly expiry: ExpiryVerdict;
  readonly renewals: number;
  readonly unanswered: number;
  readonly doubts: number;
}
