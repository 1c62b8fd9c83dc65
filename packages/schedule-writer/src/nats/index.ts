export { SCHEDULES_VERSION_MIN } from './check.ts';
export { ACK_WAIT_MS, type NatsSessionOptions, natsSessions } from './session.ts';
