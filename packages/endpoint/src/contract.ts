import { closureDigest, type Digest, type Manifest, manifestOf } from './digest.ts';
import { compileSchema, type JsonSchema, type SchemaCheck } from './schema.ts';
import * as s from './schemas.ts';

/** The command table of the `delivery` endpoint as data (wire contract section 6, SPEC 13). */
export const DELIVERY_ENDPOINT = 'delivery';
/** Every command here is of this class. */
export const COMMAND_CLASS = 'ephemeral';
/** The only command that may come without digests: it is how a caller learns them. */
export const DESCRIBE_COMMAND = 'describe';

/** Who may call it: the broker enforces it, by the subjects that a credential may publish. */
export type Capability = 'delivery.member' | 'delivery.operator';

interface CommandSource {
  readonly name: string;
  readonly capability: Capability;
  readonly input: JsonSchema;
  readonly output: JsonSchema;
}

/** A command with what follows from its schemas. */
export interface Command extends CommandSource {
  readonly inputDigest: Digest;
  readonly outputDigest: Digest;
  readonly checkInput: (args: unknown) => SchemaCheck;
  readonly checkOutput: (data: unknown) => SchemaCheck;
}

export type CommandTable = ReadonlyMap<string, Command>;

interface Cluster {
  readonly urn: string;
  /** Grows with every change of the cluster's commands. */
  readonly revision: number;
  readonly capability: Capability;
}

const CLUSTERS: readonly Cluster[] = [
  { urn: 'urn:ai.cotal:delivery:member', revision: 1, capability: 'delivery.member' },
  { urn: 'urn:ai.cotal:delivery:operator', revision: 1, capability: 'delivery.operator' },
];

const member = (name: string, input: JsonSchema, output: JsonSchema): CommandSource => ({
  name,
  capability: 'delivery.member',
  input,
  output,
});
const operator = (name: string, input: JsonSchema, output: JsonSchema): CommandSource => ({
  name,
  capability: 'delivery.operator',
  input,
  output,
});

const SOURCES: readonly CommandSource[] = [
  member('join', s.JOIN_ARGS, s.JOIN_DATA),
  member('leave', s.LEAVE_ARGS, s.LEAVE_DATA),
  member('list', s.EMPTY_SCHEMA, s.LIST_DATA),
  member('attach', s.ATTACH_ARGS, s.ATTACH_DATA),
  member('detach', s.DETACH_ARGS, s.DETACH_DATA),
  member('health', s.EMPTY_SCHEMA, s.HEALTH_DATA),
  member(DESCRIBE_COMMAND, s.VOID_SCHEMA, s.DESCRIBE_DATA),
  operator('status', s.EMPTY_SCHEMA, s.STATUS_DATA),
  operator('pending', s.PENDING_ARGS, s.PENDING_DATA),
  operator('members', s.MEMBERS_ARGS, s.MEMBERS_DATA),
  operator('settled', s.SETTLED_ARGS, s.SETTLED_DATA),
];

/** Compiles a table; a schema that is not valid throws at once. */
export function commandTable(sources: readonly CommandSource[]): CommandTable {
  return new Map(
    sources.map((c) => [
      c.name,
      {
        ...c,
        inputDigest: closureDigest(c.input),
        outputDigest: closureDigest(c.output),
        checkInput: compileSchema(c.input),
        checkOutput: compileSchema(c.output),
      },
    ]),
  );
}

export const DELIVERY_COMMANDS: CommandTable = commandTable(SOURCES);

/** Names of the commands of one capability, for the grants table. */
export const commandsOf = (capability: Capability): readonly string[] =>
  SOURCES.filter((c) => c.capability === capability).map((c) => c.name);

export interface Identity {
  readonly endpoint: string;
  /** 26 to 32 characters, a new one for every process. */
  readonly instanceId: string;
  /** Advanced by compare-and-set at each start; one token. */
  readonly epoch: string;
  /** Public half of the key that signs frames, where there is one. */
  readonly serveKey?: string;
}

/** What `describe` answers: the whole contract with its schemas inline. */
export const describeDocument = (identity: Identity, commands: CommandTable): JsonSchema => ({
  v: 1,
  endpoint: identity.endpoint,
  instanceId: identity.instanceId,
  epoch: identity.epoch,
  protocol: { v: 1 },
  ...(identity.serveKey === undefined ? {} : { serveKey: identity.serveKey }),
  clusters: CLUSTERS.map(({ urn, revision, capability }) => ({
    urn,
    revision,
    commands: [...commands.values()]
      .filter((c) => c.capability === capability)
      .map((c) => ({
        name: c.name,
        class: COMMAND_CLASS,
        targeted: false,
        capability,
        inputDigest: c.inputDigest,
        outputDigest: c.outputDigest,
        input: c.input,
        output: c.output,
      })),
    attributes: [],
    events: [],
  })),
});

/** One document to publish under its digest: a schema or the manifest of one. */
export interface Artifact {
  readonly digest: Digest;
  readonly document: JsonSchema | Manifest;
}

/** Every schema and manifest of a table, each once. */
export function contractArtifacts(commands: CommandTable): readonly Artifact[] {
  const all = new Map<Digest, Artifact['document']>();
  for (const c of commands.values()) {
    for (const schema of [c.input, c.output]) {
      const manifest = manifestOf(schema);
      all.set(manifest.root, schema);
      all.set(closureDigest(schema), manifest);
    }
  }
  return [...all].map(([digest, document]) => ({ digest, document }));
}
