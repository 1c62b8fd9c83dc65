export { type FenceCase, type FenceHarness, fenceContract } from './fence.ts';
export { type RowCase, type RowHarness, rowContract } from './row.ts';
