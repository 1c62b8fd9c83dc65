import type { Publisher } from '@plane3/link';
import { contractSubject, done, HEADER, type Outcome } from '@plane3/protocol';
import { type CommandTable, contractArtifacts, DELIVERY_COMMANDS } from '../contract.ts';
import { canonicalBytes, digestHex } from '../digest.ts';

export type ContractRefusal = Extract<
  Awaited<ReturnType<Publisher['publish']>>,
  { kind: 'refused' }
>['reason'];

/**
 * Publishes every schema and manifest on `P.epc.<hex>`, create-only: what is there stays. Readers
 * compare the bytes with the digest in the subject, so a foreign document there misleads nobody.
 */
export async function publishContracts(o: {
  readonly publisher: Publisher;
  readonly prefix: string;
  readonly table?: CommandTable;
}): Promise<Outcome<{ readonly created: number; readonly present: number }, ContractRefusal>> {
  const createOnly = [[HEADER.expectSubjectSeq, '0']] as const;
  const answers = await Promise.all(
    contractArtifacts(o.table ?? DELIVERY_COMMANDS).map(({ digest, document }) =>
      o.publisher.publish(
        contractSubject(o.prefix, digestHex(digest)),
        canonicalBytes(document),
        createOnly,
      ),
    ),
  );
  let created = 0;
  let present = 0;
  for (const a of answers) {
    if (a.kind === 'done') created++;
    else if (a.kind === 'refused' && a.reason === 'wrong-sequence') present++;
    else return a;
  }
  return done({ created, present });
}
