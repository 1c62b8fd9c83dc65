export {
  CALL_DEADLINE_MS,
  Caller,
  type CallerOptions,
  type CallerStats,
  type CallFailure,
  type CallOptions,
  type CallResult,
  callEndpoint,
} from './call.ts';
export { type ConnectionListener, watchConnection } from './connection-watch.ts';
export { Inbox, type InboxEvent } from './inbox.ts';
export { type ContractRefusal, publishContracts } from './publish-contracts.ts';
export {
  DEADLINE_MAX_MS,
  type EndpointFault,
  EndpointServer,
  type EndpointStats,
  type ServeOptions,
  serve,
} from './serve.ts';
