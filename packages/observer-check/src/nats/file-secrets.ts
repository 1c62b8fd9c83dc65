import { readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { done, type Outcome, refused } from '@plane3/protocol';
import type { SecretName } from '../model.ts';
import type { SecretSource } from '../ports.ts';

/**
 * The workstation's store: `<folder>/<name>.creds` (wire contract section 7, files). The folder is
 * resolved once, here, so that a later change of the working directory changes nothing.
 */
export class FileSecrets implements SecretSource {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = resolve(folder);
  }

  where(name: SecretName): string {
    return join(this.#folder, `${name}.creds`);
  }

  async read(name: SecretName): Promise<Outcome<Uint8Array | undefined, 'unreadable'>> {
    try {
      return done(await readFile(this.where(name)));
    } catch (e) {
      const code = (e as NodeJS.ErrnoException).code;
      return code === 'ENOENT' ? done(undefined) : refused('unreadable', code ?? 'unknown');
    }
  }
}
