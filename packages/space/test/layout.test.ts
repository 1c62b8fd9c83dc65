import { existsSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  listMeshSpaces,
  type MeshRecord,
  readMeshRecord,
  spacePaths,
  writeMeshRecord,
  writeSecretFile,
} from '@plane3/space';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { newRoot } from './support/broker.ts';

const record: MeshRecord = {
  v: 1,
  space: 'main',
  mode: 'auth',
  server: 'nats://127.0.0.1:4222',
  broker: 'own',
  transport: { kind: 'plain' },
  ports: { client: 4222 },
  leaseTtlMs: 30_000,
  replicas: 1,
  sync: 'interval',
  created: 1,
};

let root = '';
beforeEach(() => {
  root = newRoot();
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

test('files are named by the hex of the space, as the wire contract says', () => {
  const p = spacePaths('/r', 'main');
  expect(p.key).toBe('6d61696e');
  expect(p.deliveryPid).toBe('/r/.cotal/delivery.6d61696e.pid');
  expect(p.deliveryLog).toBe('/r/.cotal/delivery.6d61696e.log');
  expect(p.credential('delivery-vault')).toBe('/r/.cotal/space.6d61696e/delivery-vault.creds');
  expect(p.authFolder).toBe('/r/.cotal/auth');
});

test('spaces that differ only in letter case, or share a routing token, share no file', () => {
  const paths = ['Main', 'main', 'a b', 'a_b'].map((s) => spacePaths('/r', s).meshRecord);
  expect(new Set(paths.map((p) => p.toLowerCase())).size).toBe(4);
});

test('what cannot be a space name is refused before any path is made', () => {
  for (const bad of ['', ' main', 'x'.repeat(65)])
    expect(() => spacePaths('/r', bad)).toThrow(
      expect.objectContaining({ code: 'settings-invalid' }),
    );
});

test('a mesh record is read back as it was written, and no draft is left beside it', () => {
  writeMeshRecord(root, record);
  expect(readMeshRecord(root, 'main')).toEqual(record);
  expect(readdirSync(join(root, '.cotal'))).toEqual(['mesh.6d61696e.json']);
  expect(listMeshSpaces(root)).toEqual(['main']);
});

test('a missing mesh record is no record, a damaged or foreign one is an error', () => {
  expect(readMeshRecord(root, 'main')).toBeUndefined();
  expect(listMeshSpaces(root)).toEqual([]);
  writeMeshRecord(root, record);
  const path = spacePaths(root, 'main').meshRecord;
  for (const text of ['', '{', '{}', JSON.stringify({ ...record, extra: 1 })]) {
    writeFileSync(path, text);
    expect(() => readMeshRecord(root, 'main')).toThrow(
      expect.objectContaining({ code: 'settings-invalid' }),
    );
  }
  writeFileSync(path, JSON.stringify({ ...record, space: 'other' }));
  expect(() => readMeshRecord(root, 'main')).toThrow(/another space/);
});

test('an invalid mesh record is not written', () => {
  expect(() => writeMeshRecord(root, { ...record, leaseTtlMs: 1_999 })).toThrow(
    expect.objectContaining({ code: 'settings-invalid' }),
  );
  expect(existsSync(spacePaths(root, 'main').meshRecord)).toBe(false);
});

test('a secret is readable by its owner alone, in a folder of the owner alone', () => {
  const path = spacePaths(root, 'main').credential('delivery');
  writeSecretFile(path, 'x');
  expect(statSync(path).mode & 0o777).toBe(0o600);
  expect(statSync(join(path, '..')).mode & 0o777).toBe(0o700);
});
