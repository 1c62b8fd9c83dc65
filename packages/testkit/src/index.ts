export { makeDir, runDir } from './children.ts';
export { type EventuallyOptions, eventually } from './eventually.ts';
export { Lines } from './lines.ts';
export { type NatsOptions, type NatsProc, natsBinary, startNats } from './nats.ts';
export {
  type Exit,
  type Program,
  type ProgramOptions,
  runProgram,
  spawnDaemon,
} from './program.ts';
export { type Direction, type Relay, startRelay } from './relay.ts';
