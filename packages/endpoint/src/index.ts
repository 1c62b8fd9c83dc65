export {
  type Artifact,
  type Capability,
  COMMAND_CLASS,
  type Command,
  type CommandTable,
  commandsOf,
  commandTable,
  contractArtifacts,
  DELIVERY_COMMANDS,
  DELIVERY_ENDPOINT,
  DESCRIBE_COMMAND,
  describeDocument,
  type Identity,
} from './contract.ts';
export {
  artifactDigest,
  canonicalBytes,
  closureDigest,
  type Digest,
  digestHex,
  type Manifest,
  manifestOf,
} from './digest.ts';
export {
  BIND_REFUSED_KIND,
  type Bind,
  type Detail,
  type Effect,
  type EndpointCode,
  encodeEnvelope,
  REPLY_BYTES_MAX,
  REQUEST_BYTES_MAX,
  REQUEST_DEPTH_MAX,
  type Reply,
  type Request,
  replySchema,
  requestSchema,
  type Sender,
} from './envelope.ts';
export { NonceCache } from './nonces.ts';
export { compileSchema, type JsonSchema, type SchemaCheck } from './schema.ts';
export {
  type Arrival,
  type Call,
  hasBrokerHeader,
  type JudgeSettings,
  judgeRequest,
  type Refusal,
  type Verdict,
} from './server.ts';
