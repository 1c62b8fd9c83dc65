import { randomBytes } from 'node:crypto';
import {
  type Auth,
  AuthorizationError,
  ConnectionError,
  InvalidArgumentError,
  type NatsConnection,
  UserAuthenticationExpiredError,
} from '@nats-io/nats-core';
import { connect } from '@nats-io/transport-node';
import { Plane3Error } from '@plane3/protocol';
import { abandonDial } from './client-internals.ts';
import { type Credential, type CredentialSource, readCredential } from './credential.ts';
import type { LinkOptions } from './link-types.ts';
import { type Transport, tlsOptions } from './transport.ts';

const CONNECT_TIMEOUT_MS = 5_000;
const PING_INTERVAL_MS = 5_000;
const RECONNECT_DELAY_MS = 100;
/** Ceiling of the back-off while no credential is accepted. */
const CREDENTIAL_DELAY_MAX_MS = 5_000;

export interface Dialled {
  readonly nc: NatsConnection;
  readonly dialler: Dialler;
  readonly userKey: string;
  readonly inboxPrefix: string;
}

/** The first connect, with all that later dials of the same connection need. */
export async function dial(options: LinkOptions): Promise<Dialled> {
  const { credentials, connectTimeoutMs = CONNECT_TIMEOUT_MS } = options;
  const userKey = credentials === undefined ? '' : readCredential(credentials).userKey;
  const inboxPrefix = `_INBOX_${userKey === '' ? randomBytes(16).toString('hex') : userKey}`;
  const dialler = new Dialler(credentials, userKey);
  const connecting = bounded(dialler, connectTimeoutMs, () =>
    connect({
      name: options.name,
      servers: [...options.servers],
      tls: tlsOptions(options.transport),
      authenticator: (nonce) => dialler.authenticate(nonce),
      reconnectDelayHandler: () => dialler.delayMs(),
      inboxPrefix,
      timeout: connectTimeoutMs,
      pingInterval: options.pingIntervalMs ?? PING_INTERVAL_MS,
      maxPingOut: 2,
      maxReconnectAttempts: -1,
      ignoreAuthErrorAbort: true,
      noAsyncTraces: true,
    }),
  );
  const nc = await connecting.catch((e: unknown) => {
    throw asPlane3Error(e, options.transport);
  });
  dialler.adopt(nc);
  return { nc, dialler, userKey, inboxPrefix };
}

/**
 * What decides about a dial: the credential, the back-off, and whether the link is still wanted.
 */
export class Dialler {
  readonly userKey: string;
  closing = false;
  /** Told when the reason why no credential can be presented appears or changes. */
  onUnavailable: (e: Plane3Error) => void = () => {};
  readonly #source: CredentialSource | undefined;
  #nc: NatsConnection | undefined;
  #failures = 0;
  #reported = '';

  constructor(source: CredentialSource | undefined, userKey: string) {
    this.#source = source;
    this.userKey = userKey;
  }

  /** From now on a dial is abandoned where before the connect had failed as a whole. */
  adopt(nc: NatsConnection): void {
    this.#nc = nc;
  }

  /** The client asks for it after the greeting, and after the TLS handshake where there is one. */
  authenticate(nonce: string | undefined): Auth {
    if (this.closing) return this.#abandon(new Plane3Error('cancelled'));
    if (this.#source === undefined) return undefined;
    try {
      return this.#usable(this.#source).authenticate(nonce);
    } catch (e) {
      const error =
        e instanceof Plane3Error ? e : new Plane3Error('credential-unreadable', { cause: e });
      return this.#abandon(error);
    }
  }

  #usable(source: CredentialSource): Credential {
    const credential = readCredential(source);
    if (credential.userKey !== this.userKey)
      // Its rights would not cover this link's reply inbox: every answer would be lost.
      throw new Plane3Error('credential-unreadable', { detail: 'it is of another user' });
    return credential;
  }

  #abandon(error: Plane3Error): undefined {
    if (this.#nc === undefined) throw error; // the first connect fails as a whole
    this.#failures++;
    abandonDial(this.#nc, error.code);
    if (error.message !== this.#reported) {
      this.#reported = error.message;
      this.onUnavailable(error);
    }
    return undefined;
  }

  /** The broker said no; true the first time since it last said yes. */
  refused(): boolean {
    return this.#failures++ === 0;
  }

  accepted(): void {
    this.#failures = 0;
    this.#reported = '';
  }

  delayMs(): number {
    const backOffMs = RECONNECT_DELAY_MS * 2 ** Math.min(this.#failures, 10);
    return Math.min(backOffMs, CREDENTIAL_DELAY_MAX_MS) * (1 + Math.random() / 2);
  }
}

async function bounded(
  dialler: Dialler,
  timeoutMs: number,
  dial: () => Promise<NatsConnection>,
): Promise<NatsConnection> {
  const dialling = dial();
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      dialler.closing = true; // a dial that ends later presents nothing
      dialling.then(
        (nc) => nc.close(),
        () => {},
      );
      reject(unreachable(`no connection in ${timeoutMs} ms`));
    }, timeoutMs);
  });
  try {
    return await Promise.race([dialling, late]);
  } finally {
    clearTimeout(timer);
  }
}

const unreachable = (detail: string, cause?: unknown): Plane3Error =>
  new Plane3Error('broker-unreachable', { detail, cause });

/** Why a first connect failed, by class and system error code, never by text. */
function asPlane3Error(e: unknown, transport: Transport): Plane3Error {
  if (e instanceof Plane3Error) return e;
  if (e instanceof AuthorizationError || e instanceof UserAuthenticationExpiredError)
    return new Plane3Error('credential-refused', { detail: e.message, cause: e });
  const cause = (e as { cause?: unknown } | undefined)?.cause;
  const code = systemCode(e) ?? systemCode(cause);
  if (code !== undefined && TLS_CODE.test(code))
    return new Plane3Error('transport-refused', { detail: code, cause: e });
  if (code !== undefined) return unreachable(code, e);
  // What is left is the client's comparison of greeting and options, or a listener that closed
  // without a greeting: in clear that is a broker going away, else one that waits for TLS first.
  const mismatch = e instanceof ConnectionError || e instanceof InvalidArgumentError;
  if (mismatch && (transport.kind === 'tls' || cause !== undefined))
    return new Plane3Error('transport-refused', { detail: (e as Error).message, cause: e });
  return unreachable(e instanceof Error ? e.message : String(e), e);
}

const TLS_CODE = /^(ERR_TLS|ERR_SSL|ERR_OSSL|CERT_|UNABLE_TO_|DEPTH_ZERO|SELF_SIGNED|EPROTO$)/;

const systemCode = (e: unknown): string | undefined => {
  const code = (e as { code?: unknown } | undefined)?.code;
  return typeof code === 'string' ? code : undefined;
};
