export { type MemoryFault, MemoryLeaseBucket } from './bucket.ts';
export { MemoryFence } from './fence.ts';
export { ManualTime } from './time.ts';
