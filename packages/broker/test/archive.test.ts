import { deflateRawSync, gzipSync } from 'node:zlib';
import { extractOne } from '@plane3/broker';
import { expect, it } from 'vitest';

function zipOf(name: string, body: Buffer): Buffer {
  const data = deflateRawSync(body);
  const local = Buffer.alloc(30);
  local.writeUInt32LE(0x04034b50, 0);
  local.writeUInt16LE(name.length, 26);
  const central = Buffer.alloc(46);
  central.writeUInt32LE(0x02014b50, 0);
  central.writeUInt16LE(8, 10);
  central.writeUInt32LE(data.length, 20);
  central.writeUInt16LE(name.length, 28);
  const end = Buffer.alloc(22);
  end.writeUInt32LE(0x06054b50, 0);
  end.writeUInt16LE(1, 10);
  end.writeUInt32LE(local.length + name.length + data.length, 16);
  return Buffer.concat([local, Buffer.from(name), data, central, Buffer.from(name), end]);
}

const wanted = (name: string): boolean => name.endsWith('nats-server.exe');

it('takes one file out of a zip archive', () => {
  const zip = zipOf('dir/nats-server.exe', Buffer.from('the binary'));
  expect(extractOne(zip, 'zip', wanted).toString()).toBe('the binary');
});

it('refuses archives that are none or lack the file', () => {
  expect(() => extractOne(Buffer.alloc(100), 'zip', wanted)).toThrow('not a zip archive');
  expect(() => extractOne(zipOf('readme', Buffer.from('x')), 'zip', wanted)).toThrow(
    'no nats-server in it',
  );
  expect(() => extractOne(gzipSync(Buffer.alloc(1024)), 'tar.gz', wanted)).toThrow(
    'no nats-server in it',
  );
  expect(() => extractOne(gzipSync(Buffer.alloc(1024, 1)), 'tar.gz', wanted)).toThrow(
    'not a tar archive',
  );
  expect(() => extractOne(Buffer.from('not gzip'), 'tar.gz', wanted)).toThrow();
});
