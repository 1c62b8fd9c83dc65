export { type HeldSecret, MemorySecrets } from './secrets.ts';
