import type { ErrorCode } from '@plane3/protocol';

/** The two `$SYS` credentials (wire contract section 7). */
export type SecretName = 'membership-observer' | 'connection-evictor';

/** What a credential says about itself; nothing in it is secret. */
export interface CredentialClaims {
  readonly name: string;
  readonly userKey: string;
  /** The key that signed the token; the signature was verified with it. */
  readonly issuer: string;
  /** The account of the user, whichever of its keys signed. */
  readonly account: string;
  /** Wall clock, ms since the epoch; undefined: no end, no begin. */
  readonly expiresAtMs: number | undefined;
  readonly validFromMs: number | undefined;
  readonly publish: Rights;
  readonly subscribe: Rights;
}

/** An empty `allow` allows everything that `deny` does not name: so does the broker. */
export interface Rights {
  readonly allow: readonly string[];
  readonly deny: readonly string[];
}

/** What reading one secret came to. Absent, unreadable and present are three answers (I56). */
export type SecretRead =
  | { readonly kind: 'absent' }
  /** The source refused or did not answer: whether there is one cannot be told. */
  | { readonly kind: 'unreadable'; readonly why: string }
  /** There is something, and it is no credential. */
  | { readonly kind: 'undecodable'; readonly why: string }
  | { readonly kind: 'credential'; readonly claims: CredentialClaims };

export interface Found {
  readonly read: SecretRead;
  /** Where it was looked for, for the reader: a path, a key of a store. */
  readonly where: string;
}

export type ObserverCode = Extract<ErrorCode, `observer-${string}`>;

export type Admission =
  | {
      readonly ok: true;
      /** `absent`: the daemon can deny newcomers only; eviction is not provisioned. */
      readonly evictor: 'present' | 'absent';
      readonly posture: 'can-evict' | 'deny-new-only';
      readonly observer: {
        /** The account whose connections it lists, from its own permissions. */
        readonly account: string;
        readonly userKey: string;
        readonly expiresAtMs: number | undefined;
        readonly where: string;
      };
    }
  | {
      readonly ok: false;
      readonly code: ObserverCode;
      /** What was compared with what: public keys, names, times, places. */
      readonly detail: string;
      /** The command that repairs it. */
      readonly help: string;
    };

export type AdmissionState =
  | { readonly phase: 'observer'; readonly question: Question }
  | { readonly phase: 'evictor'; readonly question: Question; readonly observer: Found }
  | { readonly phase: 'decided'; readonly admission: Admission };

export interface Question {
  /** Account of the daemon's own data credential. */
  readonly daemonAccount: string;
  readonly nowMs: number;
}

export interface AdmissionEvent {
  readonly kind: 'found';
  readonly name: SecretName;
  readonly found: Found;
}

export type AdmissionDecision =
  | { readonly kind: 'read'; readonly name: SecretName }
  | { readonly kind: 'decide'; readonly admission: Admission };

export interface AdmissionStep {
  readonly state: AdmissionState;
  readonly decisions: readonly AdmissionDecision[];
}
