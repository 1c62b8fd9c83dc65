export { type CheckObserverOptions, checkObserver } from './check-observer.ts';
export { jwtDecoder } from './decoder.ts';
export { FileSecrets } from './file-secrets.ts';
export { NatsConnectionListing, type NatsConnectionListingOptions } from './listing.ts';
