import type { GenerationState as ReadState } from '@plane3/reader';
import type { GenerationState } from '@plane3/registry';

/** The registry's answer in the reader's words; what nobody can say stays unsaid. */
export function membershipState(g: GenerationState): ReadState {
  switch (g.state) {
    case 'active':
      return { kind: 'open', ...g.interval };
    case 'joining':
      return { kind: 'joining', ...g.interval };
    case 'leaving':
      return { kind: 'closed', ...g.interval, leaveCursor: g.interval.leaveCursor ?? 0 };
    case 'closed':
      return {
        kind: 'closed',
        incarnation: g.interval?.incarnation ?? '',
        joinCursor: g.interval?.joinCursor ?? 0,
        leaveCursor: g.interval?.leaveCursor ?? 0,
      };
    case 'absent':
      return { kind: 'none' };
    case 'cannot-tell':
      return { kind: 'unknown' };
  }
}
