export { extractOne, UNPACKED_BYTES_MAX } from './archive.ts';
export {
  type IdentityClaim,
  identify,
  type ProcessIdentity,
  type Standing,
  stillRunning,
} from './identity.ts';
export {
  type BrokerSource,
  type LocatedBroker,
  type LocateOptions,
  locateBroker,
} from './locate.ts';
export {
  type PidFile,
  type PidRecord,
  readPidFile,
  removePidRecord,
  takeStartLock,
  writePidRecord,
} from './pid-record.ts';
export { type PackagePin, PINS, type Pins, type ReleasePin } from './pins.ts';
export { isPortTaken, type Listener, listenerOf } from './port.ts';
export {
  type BrokerFacts,
  type BrokerRecord,
  type FoundBroker,
  findBroker,
  stopBroker,
} from './record.ts';
export {
  type BrokerOutput,
  type Exit,
  type RunningBroker,
  type StartOptions,
  startBroker,
} from './start.ts';
export { STOP_GRACE_MS, type StopOptions, type Stopped, stopProcess } from './stop.ts';
export { atLeast, BROKER_VERSION_MIN, versionOf } from './version.ts';
