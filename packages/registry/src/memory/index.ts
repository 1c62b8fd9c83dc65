export { MemoryChannelStream } from './channel-stream.ts';
export { MemoryMembers, MemoryMembershipStore } from './store.ts';
