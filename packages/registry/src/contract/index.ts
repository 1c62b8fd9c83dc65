export { type FrontierHarness, frontierContract } from './frontier-contract.ts';
export { type StoreHarness, storeContract } from './store-contract.ts';
