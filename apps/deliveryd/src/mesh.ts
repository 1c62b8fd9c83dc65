import { readFileSync } from 'node:fs';
import type { CredentialSource, Transport } from '@plane3/link';
import { Plane3Error } from '@plane3/protocol';
import { readMeshRecord, type SpacePaths, spacePaths } from '@plane3/space';
import type { Settings } from './settings.ts';

/** What every connection of this daemon uses; decided once, never at a reconnect. */
export interface Mesh {
  readonly paths: SpacePaths;
  readonly servers: readonly string[];
  readonly transport: Transport;
  readonly delivery: CredentialSource;
  readonly vault: CredentialSource;
}

/** The file is read at every connect, so that a renewed credential is used at the next one. */
export const fileCredential =
  (file: string): CredentialSource =>
  () => {
    try {
      return readFileSync(file);
    } catch (cause) {
      throw new Plane3Error('credential-missing', { detail: file, cause });
    }
  };

/**
 * From the mesh record of the root. Settings may repeat it, and add TLS; a contradiction is
 * refused before anything is dialled. Without a record the settings must name the server.
 */
export function resolveMesh(settings: Settings): Mesh {
  const paths = spacePaths(settings.root, settings.space);
  const record = readMeshRecord(settings.root, settings.space);
  if (record?.mode === 'open')
    throw new Plane3Error('settings-invalid', {
      detail: `space ${settings.space} runs in open mode, which is live only and has no daemon`,
      help: 'create an authenticated mesh: cotal up',
    });
  if (record !== undefined && settings.server !== undefined && settings.server !== record.server)
    throw new Plane3Error('settings-invalid', {
      detail: `--server ${settings.server} contradicts the mesh record, which says ${record.server}`,
      help: `leave --server away, or correct ${paths.meshRecord}`,
    });
  const server = record?.server ?? settings.server;
  if (server === undefined)
    throw new Plane3Error('space-unknown', {
      detail: `no mesh record ${paths.meshRecord}, and no --server`,
      help: `create the mesh (cotal up --space ${settings.space} --root ${settings.root}) or give --server`,
    });
  return {
    paths,
    servers: [server],
    transport: transportOf(settings, record?.transport),
    delivery: fileCredential(settings.creds ?? paths.credential('delivery')),
    vault: fileCredential(settings.vaultCreds ?? paths.credential('delivery-vault')),
  };
}

function transportOf(settings: Settings, recorded: RecordedTransport | undefined): Transport {
  const wanted = settings.tls === true || settings.tlsCa !== undefined;
  if (recorded?.kind === 'tls' || wanted) {
    const base = recorded?.kind === 'tls' ? recorded : { kind: 'tls' as const };
    return defined({
      ...base,
      ...(settings.tlsCa === undefined ? {} : { caFile: settings.tlsCa }),
    });
  }
  return { kind: 'plain' };
}

interface RecordedTransport {
  readonly kind: 'plain' | 'tls';
  readonly caFile?: string | undefined;
  readonly handshakeFirst?: boolean | undefined;
  readonly serverName?: string | undefined;
}

const defined = (t: RecordedTransport): Transport =>
  Object.fromEntries(Object.entries(t).filter(([, v]) => v !== undefined)) as unknown as Transport;
