import zlib from 'node:zlib';
import type { ArchiveKind } from './platform.ts';

/** An archive that would unpack to more than this is refused. */
export const UNPACKED_BYTES_MAX = 256 << 20;

/**
 * One regular file out of an archive. Nothing is written to disk by a name of the archive, so a
 * hostile path in it does nothing.
 */
export function extractOne(
  archive: Buffer,
  kind: ArchiveKind,
  want: (name: string) => boolean,
): Buffer {
  const found = kind === 'zip' ? fromZip(archive, want) : fromTar(archive, want);
  if (found === undefined) throw new Error('the archive has no nats-server in it');
  return found;
}

function fromZip(zip: Buffer, want: (name: string) => boolean): Buffer | undefined {
  let end = zip.length - 22;
  while (end >= 0 && zip.readUInt32LE(end) !== 0x06054b50) end--;
  if (end < 0) throw new Error('not a zip archive');
  let at = zip.readUInt32LE(end + 16);
  for (let left = zip.readUInt16LE(end + 10); left > 0; left--) {
    const nameLength = zip.readUInt16LE(at + 28);
    const extraLength = zip.readUInt16LE(at + 30);
    const noteLength = zip.readUInt16LE(at + 32);
    if (want(zip.toString('utf8', at + 46, at + 46 + nameLength))) {
      const local = zip.readUInt32LE(at + 42);
      const start = local + 30 + zip.readUInt16LE(local + 26) + zip.readUInt16LE(local + 28);
      const data = zip.subarray(start, start + zip.readUInt32LE(at + 20));
      const isStored = zip.readUInt16LE(at + 10) === 0;
      return isStored
        ? Buffer.from(data)
        : zlib.inflateRawSync(data, { maxOutputLength: UNPACKED_BYTES_MAX });
    }
    at += 46 + nameLength + extraLength + noteLength;
  }
  return undefined;
}

const BLOCK = 512;

function fromTar(gz: Buffer, want: (name: string) => boolean): Buffer | undefined {
  const tar = zlib.gunzipSync(gz, { maxOutputLength: UNPACKED_BYTES_MAX });
  for (let at = 0; at + BLOCK <= tar.length && tar[at] !== 0; ) {
    const nameEnd = tar.indexOf(0, at);
    const name = tar.toString('utf8', at, Math.min(nameEnd, at + 100));
    const size = Number.parseInt(tar.toString('ascii', at + 124, at + 136), 8);
    if (!Number.isSafeInteger(size)) throw new Error('not a tar archive');
    const isRegular = tar[at + 156] === 0x30 || tar[at + 156] === 0;
    if (isRegular && want(name)) return Buffer.from(tar.subarray(at + BLOCK, at + BLOCK + size));
    at += BLOCK + Math.ceil(size / BLOCK) * BLOCK;
  }
  return undefined;
}
