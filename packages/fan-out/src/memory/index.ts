export { MemoryChat, MemoryPostSource } from './chat.ts';
export {
  type Fault,
  type MemoryCopy,
  MemoryCopyStore,
  MemoryInbox,
  type Operation,
} from './inbox.ts';
export { ManualTime, MemoryDeadPosts, MemoryDirectory, type MemoryRow } from './surroundings.ts';
