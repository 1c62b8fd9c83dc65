export { type FenceCase, type FenceHarness, fenceContract } from './fence.ts';
export { CONTRACT_TTL_MS, type RowCase, type RowHarness, rowContract } from './row.ts';
