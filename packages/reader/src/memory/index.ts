export { type MemoryCopy, MemoryHandOver } from './hand-over.ts';
export { MemoryEntryStore } from './store.ts';
export {
  MemoryAttachments,
  MemoryMemberships,
  MemoryRights,
  MemoryTime,
} from './surroundings.ts';
