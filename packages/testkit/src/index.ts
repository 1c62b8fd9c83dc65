export { makeDir, runDir } from './children.ts';
export { type DaemonExit, type DaemonOptions, type DaemonProc, spawnDaemon } from './daemon.ts';
export { type EventuallyOptions, eventually } from './eventually.ts';
export { Lines } from './lines.ts';
export { type NatsOptions, type NatsProc, natsBinary, startNats } from './nats.ts';
export { type Direction, type Relay, startRelay } from './relay.ts';
