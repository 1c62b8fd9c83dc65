export { NatsFrontier } from './frontier.ts';
export { NatsMembershipStore, type NatsMembershipStoreOptions } from './store.ts';
