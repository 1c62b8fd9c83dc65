/**
 * The error catalogue. Match on `code`, never on text. `disposition` says what a program does
 * with it; `exitCode` is what a command line ends with.
 */
export type Disposition = 'retry' | 'refuse' | 'withhold' | 'stop' | 'defect';

export interface ErrorEntry {
  readonly family:
    | 'endpoint'
    | 'settings'
    | 'broker'
    | 'credential'
    | 'lease'
    | 'observer'
    | 'space'
    | 'local';
  readonly disposition: Disposition;
  /** What happened, in one sentence without a full stop. */
  readonly message: string;
  /** What to do about it; runnable where it names a command. */
  readonly help: string;
  readonly exitCode: number;
}

const e = (
  family: ErrorEntry['family'],
  disposition: Disposition,
  exitCode: number,
  message: string,
  help: string,
): ErrorEntry => ({ family, disposition, exitCode, message, help });

export const ERRORS = {
  // The endpoint's codes (wire contract section 6); these travel on the wire.
  'bad-request': e(
    'endpoint',
    'refuse',
    2,
    'the request is malformed',
    'compare it with what `describe` publishes',
  ),
  'unsupported-version': e(
    'endpoint',
    'refuse',
    1,
    'the protocol version is not served',
    'upgrade the older side',
  ),
  'op-mismatch': e(
    'endpoint',
    'refuse',
    1,
    'subject and body name different operations',
    'send the command that the subject names',
  ),
  'class-mismatch': e(
    'endpoint',
    'refuse',
    1,
    'the command is of another class',
    'use class "ephemeral"',
  ),
  'target-mismatch': e(
    'endpoint',
    'refuse',
    1,
    'the command takes no target',
    'send it without mode and target tokens',
  ),
  'sender-mismatch': e(
    'endpoint',
    'refuse',
    7,
    'the body names another sender than the subject',
    'send from your own principal',
  ),
  unauthenticated: e(
    'endpoint',
    'refuse',
    7,
    'the caller is not a known lifecycle of this space',
    'add it: cotal agent add NAME --read CH --write CH',
  ),
  'permission-denied': e(
    'endpoint',
    'refuse',
    7,
    'the caller may not do this',
    'ask an operator: cotal agent set NAME --read CH',
  ),
  'not-found': e(
    'endpoint',
    'refuse',
    1,
    'there is no such thing',
    'look at what exists with the matching list command',
  ),
  'already-exists': e('endpoint', 'refuse', 1, 'it exists already', 'use the existing one'),
  conflict: e('endpoint', 'retry', 1, 'somebody else changed it meanwhile', 'try again'),
  'contract-mismatch': e(
    'endpoint',
    'refuse',
    1,
    'the caller uses another contract of this command',
    'read `describe` again and send its digests',
  ),
  'contract-invalid': e(
    'endpoint',
    'refuse',
    1,
    'arguments or result do not follow the published schema',
    'compare them with what `describe` publishes',
  ),
  'failed-precondition': e(
    'endpoint',
    'refuse',
    3,
    'it cannot be done in this state',
    'see the details of the answer',
  ),
  'deadline-exceeded': e(
    'endpoint',
    'retry',
    124,
    'the deadline passed before an answer',
    'try again with more time',
  ),
  cancelled: e('endpoint', 'refuse', 1, 'it was cancelled', 'try again'),
  expired: e(
    'endpoint',
    'refuse',
    1,
    'what the request was bound to is gone',
    'read `describe` again',
  ),
  unavailable: e(
    'endpoint',
    'retry',
    3,
    'the delivery daemon does not serve',
    'look at it: cotal status',
  ),
  unimplemented: e(
    'endpoint',
    'refuse',
    1,
    'the command is not served',
    'read `describe` for those that are',
  ),
  'resource-exhausted': e(
    'endpoint',
    'retry',
    1,
    'a bound was reached',
    'try again later or raise the setting',
  ),
  internal: e(
    'endpoint',
    'defect',
    70,
    'the daemon failed while it handled the request',
    'look at its log, .cotal/delivery.KEY.log',
  ),

  // Programs' own.
  usage: e('settings', 'refuse', 2, 'the command line cannot be understood', 'add --help'),
  'settings-invalid': e(
    'settings',
    'refuse',
    9,
    'the settings are invalid',
    'correct the named setting',
  ),
  'not-serving': e(
    'local',
    'refuse',
    3,
    'the delivery daemon does not serve',
    'start it: cotal up',
  ),
  'lease-held': e(
    'lease',
    'refuse',
    4,
    'another daemon serves this space',
    'stop that one first: cotal down',
  ),
  'lease-not-expired': e(
    'lease',
    'retry',
    5,
    'the lease of a dead daemon has not expired yet',
    'wait for it: cotal up --wait',
  ),
  'lease-lost': e(
    'lease',
    'stop',
    4,
    'the lease went to another daemon',
    'nothing: the other one serves',
  ),
  'lease-expiry-broken': e(
    'lease',
    'refuse',
    10,
    'rows of the lease bucket do not expire',
    'repair the bucket: cotal up',
  ),
  'observer-missing': e(
    'observer',
    'refuse',
    6,
    'the $SYS observer credential is missing',
    'provision it: cotal up',
  ),
  'observer-unreadable': e(
    'observer',
    'refuse',
    6,
    'the $SYS observer credential cannot be read',
    'issue it anew: cotal up',
  ),
  'observer-expired': e(
    'observer',
    'refuse',
    6,
    'the $SYS observer credential is expired',
    'renew it: cotal up',
  ),
  'observer-lacks-right': e(
    'observer',
    'refuse',
    6,
    'the $SYS observer credential lacks the listing right',
    'remove its file in .cotal/space.KEY, then issue it anew: cotal up',
  ),
  'observer-foreign': e(
    'observer',
    'refuse',
    6,
    'the $SYS observer belongs to another account',
    'start in the right root: --root DIR',
  ),
  'observer-torn': e(
    'observer',
    'refuse',
    6,
    'observer and evictor are of different generations',
    'remove both files in .cotal/space.KEY, then issue them anew: cotal up',
  ),
  'credential-missing': e(
    'credential',
    'refuse',
    7,
    'a credential is missing',
    'provision it: cotal up',
  ),
  'credential-unreadable': e(
    'credential',
    'refuse',
    7,
    'a credential cannot be read',
    'issue it anew: cotal up, or for an agent: cotal agent renew NAME',
  ),
  'credential-expired': e(
    'credential',
    'refuse',
    7,
    'a credential is expired',
    'renew it: cotal up, or for an agent: cotal agent renew NAME',
  ),
  'credential-refused': e(
    'credential',
    'refuse',
    7,
    'the broker refuses the credential',
    'remove its file, then issue it anew: cotal up, or for an agent: cotal agent renew NAME',
  ),
  'broker-unreachable': e(
    'broker',
    'retry',
    3,
    'the broker cannot be reached',
    'start it: cotal up',
  ),
  'broker-missing': e(
    'broker',
    'refuse',
    10,
    'no usable nats-server was found',
    'see the list of what was looked at',
  ),
  'broker-too-old': e(
    'broker',
    'refuse',
    10,
    'the broker lacks a required feature',
    'use nats-server 2.12 or newer',
  ),
  'broker-failed': e(
    'broker',
    'refuse',
    1,
    'the broker ended before it was ready',
    'look at its log',
  ),
  'port-in-use': e(
    'broker',
    'refuse',
    1,
    'the port is in use',
    'choose another: cotal up --port N',
  ),
  'transport-refused': e(
    'broker',
    'refuse',
    8,
    'the transport does not match the mesh record',
    'compare the mesh record with the broker',
  ),
  'stream-missing': e(
    'space',
    'refuse',
    3,
    'a stream or bucket of the space is missing',
    'repair the space: cotal up',
  ),
  'stream-mismatch': e(
    'space',
    'refuse',
    3,
    'a stream or bucket has other settings than the space needs',
    'repair the space: cotal up',
  ),
  'space-unknown': e(
    'space',
    'refuse',
    2,
    'there is no such space here',
    'create it: cotal up --space NAME',
  ),
  'store-recreated': e(
    'space',
    'stop',
    3,
    'a stream was recreated under the daemon',
    'go on with the new one (what the old one still held is lost): cotal up --accept-recreated',
  ),
  'agent-unknown': e(
    'space',
    'refuse',
    2,
    'there is no such agent',
    'add it: cotal agent add NAME --read CH --write CH',
  ),
  'not-ours': e(
    'local',
    'refuse',
    1,
    'a process that is not provably ours stands in the way',
    'stop it by hand',
  ),
  'timed-out': e('local', 'retry', 124, 'the time given ran out', 'give it more time'),
  defect: e('local', 'defect', 70, 'this should not have happened', 'report it with the log'),
} as const satisfies Record<string, ErrorEntry>;

export type ErrorCode = keyof typeof ERRORS;

/** The codes that an endpoint may answer with. */
export const ENDPOINT_CODES: readonly ErrorCode[] = (Object.keys(ERRORS) as ErrorCode[]).filter(
  (c) => ERRORS[c].family === 'endpoint',
);

export interface ErrorOptions {
  /** Facts for the reader and the log: ids, subjects, paths, numbers. Never secrets or content. */
  readonly context?: Readonly<Record<string, unknown>>;
  /** What was found, where the catalogue's message is not enough. */
  readonly detail?: string;
  /** The exact repair, where it is more precise than the catalogue's. */
  readonly help?: string;
  readonly cause?: unknown;
}

/** The one error class. `message` is the catalogue's sentence and the detail. */
export class Plane3Error extends Error {
  override readonly name = 'Plane3Error';
  readonly code: ErrorCode;
  readonly context: Readonly<Record<string, unknown>>;
  readonly help: string;

  constructor(code: ErrorCode, options: ErrorOptions = {}) {
    const text = ERRORS[code].message;
    super(options.detail === undefined ? text : `${text}: ${options.detail}`, {
      cause: options.cause,
    });
    this.code = code;
    this.context = options.context ?? {};
    this.help = options.help ?? ERRORS[code].help;
  }

  get exitCode(): number {
    return ERRORS[this.code].exitCode;
  }
}

export const isPlane3Error = (x: unknown): x is Plane3Error => x instanceof Plane3Error;
