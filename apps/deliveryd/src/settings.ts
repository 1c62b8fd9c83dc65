import { readFileSync } from 'node:fs';
import { isSpaceName, Plane3Error } from '@plane3/protocol';
import { z } from 'zod';

/**
 * Settings of the daemon, validated whole before anything connects. Each comes from the flag,
 * else the environment (`DELIVERYD_*`), else the file, else the default; an unknown key fails.
 */
const settingsSchema = z.strictObject({
  space: z.string().refine(isSpaceName, { message: 'not a space name' }),
  /** The folder that holds `.cotal`. */
  root: z.string().min(1),
  /** Broker addresses; unset: what the mesh record says. */
  server: z.url({ protocol: /^(nats|tls)$/ }).optional(),
  /** Demand TLS. A mesh record that demands it cannot be overridden downwards. */
  tls: z.boolean().optional(),
  tlsCa: z.string().optional(),
  /** Credential file for the space account; unset: the one of the root. */
  creds: z.string().optional(),
  vaultCreds: z.string().optional(),
  shard: z.coerce.number().int().min(0).default(0),
  shards: z.coerce.number().int().min(1).max(1).default(1),
  logLevel: z.enum(['trace', 'debug', 'info', 'warn', 'error']).default('info'),
  /** How long a member's hand-over may wait for its confirmation before the broker repeats it. */
  ackWaitMs: z.coerce.number().int().min(1_000).max(3_600_000).default(60_000),
  /** How long the copies of a member that went away stay handed over. */
  detachGraceMs: z.coerce.number().int().min(1).max(3_600_000).default(60_000),
  windowEntries: z.coerce.number().int().min(1).max(4_096).default(64),
  windowBytes: z.coerce
    .number()
    .int()
    .min(1_024)
    .max(64 << 20)
    .default(1 << 20),
  mentionsPerMinute: z.coerce.number().int().min(0).default(60),
  catchUpPosts: z.coerce.number().int().min(0).default(100_000),
  catchUpMs: z.coerce.number().int().min(0).default(600_000),
  /** A view of a bucket that was not proved current for this long decides nothing. */
  viewFreshnessMs: z.coerce.number().int().min(1_000).default(5_000),
  /**
   * What to do when the channel stream is another one than the stored cursor counts in: refuse and
   * say so, or take up the new one. What the old one held above the cursor is lost either way.
   */
  onRecreated: z.enum(['refuse', 'restart']).default('refuse'),
  /** The daemon ends when the broker was out of reach for this long. */
  brokerGoneMs: z.coerce.number().int().min(1_000).default(300_000),
});

export type Settings = z.infer<typeof settingsSchema>;
export type SettingsInput = { readonly [K in keyof Settings]?: unknown };

const KEYS = Object.keys(settingsSchema.shape) as (keyof Settings)[];

const environmentName = (key: string): string =>
  `DELIVERYD_${key.replace(/[A-Z]/g, (c) => `_${c}`).toUpperCase()}`;

const invalid = (detail: string): never => {
  throw new Plane3Error('settings-invalid', { detail });
};

function fromEnvironment(env: Readonly<Record<string, string | undefined>>): SettingsInput {
  const known = new Map(KEYS.map((k) => [environmentName(k), k]));
  const out: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(env)) {
    if (!name.startsWith('DELIVERYD_') || value === undefined) continue;
    if (name === 'DELIVERYD_CONFIG' || name === 'DELIVERYD_FAILPOINT') continue;
    const key = known.get(name) ?? invalid(`unknown environment variable ${name}`);
    out[key] = key === 'tls' ? value === '1' || value === 'true' : value;
  }
  return out;
}

function fromFile(file: string | undefined): SettingsInput {
  if (file === undefined) return {};
  let value: unknown;
  try {
    value = JSON.parse(readFileSync(file, 'utf8'));
  } catch (cause) {
    throw new Plane3Error('settings-invalid', { detail: `cannot read ${file} as JSON`, cause });
  }
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? value
    : invalid(`${file} is not an object`);
}

/** Throws `settings-invalid` naming every wrong key; undefined flags count as not given. */
export function resolveSettings(sources: {
  readonly flags: SettingsInput;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly file?: string | undefined;
}): Settings {
  const given = Object.fromEntries(
    Object.entries(sources.flags).filter(([, v]) => v !== undefined),
  );
  const merged = { ...fromFile(sources.file), ...fromEnvironment(sources.env), ...given };
  const parsed = settingsSchema.safeParse(merged);
  if (parsed.success) return parsed.data;
  return invalid(
    parsed.error.issues
      .map((i) =>
        i.code === 'unrecognized_keys'
          ? `unknown ${i.keys.join(', ')}`
          : `${i.path.join('.')}: ${i.message}`,
      )
      .join('; '),
  );
}
