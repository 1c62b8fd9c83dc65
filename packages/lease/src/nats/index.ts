export { NatsFence, type NatsFenceOptions } from './fence.ts';
export { LinuxHostProbe, systemClock, systemTimers } from './host-probe.ts';
export { NatsLeaseRow, type NatsLeaseRowOptions, probeKey } from './row.ts';
