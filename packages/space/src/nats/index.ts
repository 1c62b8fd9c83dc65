export {
  type Agent,
  type AgentRefusal,
  type AgentSettings,
  Agents,
  type IssuedAgent,
} from './agents.ts';
export { type ConfiguredChannel, listChannels, setChannel } from './channels.ts';
export { type PushRefusal, pushAccount } from './claims.ts';
export { AdminLinks, type AdminOptions, type PlainProfile } from './links.ts';
export {
  type ProvisionRefusal,
  provisionStreams,
  requireWhole,
  verifyStreams,
  writeDefaults,
} from './provision.ts';
export { StreamApi, type StreamState } from './stream-api.ts';
