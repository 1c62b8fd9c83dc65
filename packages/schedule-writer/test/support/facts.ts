import type { CheckpointStatus, TimerSubject } from '@plane3/protocol';
import type { RequestFacts } from '@plane3/schedule-writer';

export const PREFIX = 'cotal.main';
export const IID = 'a'.repeat(26);
const text = new TextEncoder();

export const timer = (timerId: string): TimerSubject => ({
  endpoint: 'flow',
  instanceId: IID,
  epoch: '1',
  timerId,
  verb: 'schedule',
});

export const subject = (timerId: string, verb = 'schedule', prefix = PREFIX): string =>
  `${prefix}.ept.flow.${IID}.1.${timerId}.${verb}`;

export const body = (timerId: string, generation = 1, more: object = {}): Uint8Array =>
  text.encode(JSON.stringify({ v: 1, timerId, generation, deadline: 1, ...more }));

export const request = (
  timerId: string,
  generation = 1,
  o: Partial<RequestFacts> = {},
): RequestFacts => ({
  subject: subject(timerId),
  headerNames: [],
  body: body(timerId, generation),
  ...o,
});

export const waiting = (deadline: number, deadlineGeneration = 1): CheckpointStatus => ({
  state: 'waiting',
  deadlineGeneration,
  deadline,
});
