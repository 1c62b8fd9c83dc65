export { MemoryTimers } from './timers.ts';
export { type MemoryFault, MemoryWorld } from './world.ts';
