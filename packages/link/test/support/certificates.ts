import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeDir } from '@plane3/testkit';

export interface Certificates {
  readonly caFile: string;
  readonly certFile: string;
  readonly keyFile: string;
}

const OPENSSL = process.env['OPENSSL_BIN'] ?? 'openssl';

/** An authority of its own and a certificate for `host`, both for a day. */
export function makeCertificates(host = 'localhost'): Certificates {
  const dir = makeDir('tls');
  const at = (name: string): string => join(dir, name);
  const openssl = (...args: string[]) => execFileSync(OPENSSL, args, { cwd: dir, stdio: 'pipe' });
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];
  openssl(
    'req',
    '-x509',
    ...key,
    '-days',
    '1',
    '-subj',
    '/CN=test',
    '-keyout',
    'ca.key',
    '-out',
    'ca.pem',
  );
  openssl('req', ...key, '-subj', `/CN=${host}`, '-keyout', 'server.key', '-out', 'server.csr');
  writeFileSync(at('san'), `subjectAltName=DNS:${host}`);
  const sign = ['-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial', '-days', '1'];
  openssl('x509', '-req', '-in', 'server.csr', ...sign, '-extfile', 'san', '-out', 'server.pem');
  return { caFile: at('ca.pem'), certFile: at('server.pem'), keyFile: at('server.key') };
}
