export {
  type AgentRequest,
  type AgentRow,
  agentRowSchema,
  type DurableConfig,
  directDurableConfig,
  HAND_OVER_ACK_WAIT_MS,
  handOverDurableConfig,
  roleDurableConfig,
} from './agents.ts';
export { ensureSecretFolder, readFileIfPresent, writeSecretFile } from './files.ts';
export { type AgentRights, MEMBER_COMMANDS } from './grants/agent.ts';
export type { GrantLine } from './grants/lines.ts';
export {
  fireDurable,
  HOST_COMMANDS,
  MANAGER_LEASE_KEY,
  OPERATOR_COMMANDS,
} from './grants/operator.ts';
export {
  CHANNEL_PATTERNS_MAX,
  enforceable,
} from './grants/patterns.ts';
export {
  AGENT_LIFETIME_MS,
  type GrantContext,
  grantLines,
  ONE_SHOT_LIFETIME_MS,
  type PermissionLists,
  PROFILE_NAMES,
  PROFILES,
  type Profile,
  type ProfileArguments,
  type ProfileName,
  permissionLists,
  STANDING_LIFETIME_MS,
  SYSTEM_LIFETIME_MS,
} from './grants.ts';
export {
  COTAL_FOLDER,
  checkedMeshRecord,
  LEASE_TTL_MS_DEFAULT,
  LEASE_TTL_MS_MIN,
  listMeshSpaces,
  type MeshRecord,
  meshRecordSchema,
  readMeshRecord,
  type SpacePaths,
  type StandingCredential,
  spacePaths,
  writeMeshRecord,
} from './layout.ts';
export {
  type Minted,
  type MintRequest,
  mint,
  newUid,
  newUserKey,
  profileLifecycle,
  TOKEN_BYTES_MAX,
  type UserKey,
  userKeyOf,
} from './mint.ts';
export { renderGrants } from './render.ts';
export {
  CONTROL_LINE_BYTES_MAX,
  PAYLOAD_BYTES_MAX_DEFAULT,
  type ServerSettings,
  type ServerTls,
  serverConfig,
} from './server-config.ts';
export {
  type Comparison,
  compareStream,
  type Difference,
  isWhole,
  type StreamReport,
} from './stream-compare.ts';
export {
  CAPABILITY_FIELD,
  type Capability,
  CHAT_POSTS_PER_SENDER_MAX,
  CONSUMERS_MAX,
  deliverySpecs,
  type StreamConfig,
  type StreamRole,
  type StreamSettings,
  type StreamSpec,
  streamSpec,
  streamSpecs,
} from './streams.ts';
export {
  ACCOUNTS,
  type Account,
  type AccountQuota,
  Trust,
  type TrustState,
  TrustStore,
} from './trust.ts';
