export { check, checkObserverAlone } from './check.ts';
export { initial, step } from './machine.ts';
export type {
  Admission,
  AdmissionDecision,
  AdmissionEvent,
  AdmissionState,
  AdmissionStep,
  CredentialClaims,
  Found,
  ObserverCode,
  Question,
  Rights,
  SecretName,
  SecretRead,
} from './model.ts';
export type {
  ConnectionListing,
  Decoder,
  ListedConnection,
  ListingPage,
  ListingRefusal,
  SecretSource,
  Timers,
} from './ports.ts';
export { KICK_SUBJECT, listingSubject } from './rights.ts';
export { type AdmitObserverOptions, admitObserver, SECRET_READ_MS_MAX } from './runtime.ts';
