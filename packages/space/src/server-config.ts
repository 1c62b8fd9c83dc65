import { Plane3Error } from '@plane3/protocol';
import type { SpacePaths } from './layout.ts';
import { ACCOUNTS, type Trust } from './trust.ts';

/** Room for a CONNECT line with a token that names many channels (wire contract section 4). */
export const CONTROL_LINE_BYTES_MAX = 65_536;
export const PAYLOAD_BYTES_MAX_DEFAULT = 1_048_576;

export interface ServerTls {
  readonly certFile: string;
  readonly keyFile: string;
  /** Clients never trust the greeting before the handshake; needs clients set the same way. */
  readonly handshakeFirst?: boolean;
}

export interface ServerSettings {
  readonly host?: string;
  /** -1: the broker chooses and writes it into the ports folder. */
  readonly port: number;
  readonly payloadBytesMax?: number;
  /** `always`: every acknowledgement waits for the disk. Default: the broker's interval. */
  readonly sync?: 'interval' | 'always';
  readonly tls?: ServerTls;
}

/**
 * The configuration of the one broker of a space. Authenticated: operator mode with a full
 * resolver, whose folder takes revocations that are pushed later; the preloaded tokens never
 * replace newer ones there. `trust` undefined is open dev mode: no credentials, one account.
 */
export async function serverConfig(
  paths: Pick<SpacePaths, 'key' | 'jetStreamFolder' | 'resolverFolder'>,
  trust: Trust | undefined,
  settings: ServerSettings,
): Promise<string> {
  const lines = [
    `server_name: ${quoted(`cotal-${paths.key}`)}`,
    `host: ${quoted(settings.host ?? '127.0.0.1')}`,
    `port: ${settings.port}`,
    `max_control_line: ${CONTROL_LINE_BYTES_MAX}`,
    `max_payload: ${settings.payloadBytesMax ?? PAYLOAD_BYTES_MAX_DEFAULT}`,
    'jetstream {',
    // Or an acknowledgement, aimed at the API by the reply of a post, would be taken for a purge.
    '  strict: true',
    `  store_dir: ${quoted(paths.jetStreamFolder)}`,
    ...(settings.sync === 'always' ? ['  sync_interval: always'] : []),
    '}',
    ...(settings.tls === undefined ? [] : tlsLines(settings.tls)),
    ...(trust === undefined ? [] : await trustLines(trust, paths.resolverFolder)),
  ];
  return `${lines.join('\n')}\n`;
}

function tlsLines(tls: ServerTls): string[] {
  return [
    'tls {',
    `  cert_file: ${quoted(tls.certFile)}`,
    `  key_file: ${quoted(tls.keyFile)}`,
    ...(tls.handshakeFirst === true ? ['  handshake_first: true'] : []),
    '}',
  ];
}

async function trustLines(trust: Trust, resolverFolder: string): Promise<string[]> {
  const preload: string[] = [];
  for (const account of ACCOUNTS)
    preload.push(`  ${trust.accountKey(account)}: ${quoted(await trust.accountJwt(account))}`);
  return [
    `operator: ${quoted(trust.operatorJwt)}`,
    `system_account: ${trust.accountKey('system')}`,
    'resolver {',
    '  type: full',
    `  dir: ${quoted(resolverFolder)}`,
    // Nobody may take an account away over the wire; stopping the broker does.
    '  allow_delete: false',
    '}',
    'resolver_preload {',
    ...preload,
    '}',
  ];
}

/** A string of the configuration language: nothing in it is taken for a variable or a bare word. */
function quoted(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: exactly these end a line or a string
  if (/[\u0000-\u001f\u007f]/.test(text))
    throw new Plane3Error('settings-invalid', {
      detail: 'control characters in a broker setting',
      context: { text },
    });
  return `"${text.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`;
}
