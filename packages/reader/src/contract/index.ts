export {
  type ContractCase,
  type EntryToPut,
  entryStoreContract,
  type StoreRig,
} from './entry-store.ts';
export { type HandOverRig, handOverContract } from './hand-over.ts';
