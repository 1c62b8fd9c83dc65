import { spaceNames } from '@plane3/protocol';
import { compareStream, deliverySpecs, streamSpec, streamSpecs } from '@plane3/space';
import { expect, test } from 'vitest';

const names = spaceNames('main');
const specs = streamSpecs(names, { leaseTtlMs: 2_000, replicas: 3 });
const of = (role: Parameters<typeof streamSpec>[1]) => streamSpec(specs, role).config;

test('what decides lies in the vault, what agents touch in the space account', () => {
  const where = (account: string) =>
    specs.filter((s) => s.account === account).map((s) => s.config.name);
  expect(where('vault').sort()).toEqual(
    [
      'DEAD_main',
      'INBOX_main',
      'KV_cotal_acl_main',
      'KV_cotal_channels_main',
      'KV_cotal_delivery_main',
      'KV_cotal_members_main',
      'KV_cotal_records_main',
      'KV_cotal_state_main',
    ].sort(),
  );
  expect(where('space')).toEqual([
    'CHAT_main',
    'DM_main',
    'TASK_main',
    'DLV_main',
    'EPT_REQ_main',
    'EPT_main',
    'EPC_main',
    'KV_cotal_presence_main',
    'KV_cotal_channels_main',
    'KV_cotal_delivery_main',
    'KV_cotal_membership_main',
  ]);
});

test('the settings that peers rely on are those of the wire contract', () => {
  expect(of('chat')).toMatchObject({
    max_msgs_per_subject: 1_000,
    discard: 'old',
    allow_direct: true,
  });
  expect(of('task').retention).toBe('workqueue');
  expect(of('dlv')).toMatchObject({ allow_msg_ttl: true, max_age: 0, max_msgs_per_subject: -1 });
  expect(of('timer-requests').max_age).toBe(24 * 3_600e9);
  expect(of('timers')).toMatchObject({ max_age: 31 * 24 * 3_600e9, allow_msg_schedules: true });
  expect(of('timer-requests').allow_msg_schedules).toBeUndefined();
  expect(of('contracts')).toMatchObject({ deny_delete: true, deny_purge: true });
  expect(of('inbox')).toMatchObject({
    discard: 'new',
    max_age: 0,
    allow_direct: true,
  });
  expect(of('presence').max_age).toBe(6e9);
  expect(of('lease').max_age).toBe(2e9);
  for (const role of ['members', 'acl', 'records', 'channels'] as const)
    expect(of(role)).toMatchObject({ max_msgs_per_subject: 1, max_age: 0 });
  expect(specs.every((s) => s.config.num_replicas === 3)).toBe(true);
});

test('nothing that an agent could direct-read or clear by a header is in the space account', () => {
  const space = specs.filter((s) => s.account === 'space');
  expect(space.filter((s) => s.config.allow_direct).map((s) => s.role)).toEqual(['chat']);
  expect(space.filter((s) => s.config.allow_rollup_hdrs).map((s) => s.role)).toEqual(['timers']);
  expect(space.filter((s) => s.config.allow_msg_ttl).map((s) => s.role)).toEqual(['dlv']);
});

test('a duplicate window is never longer than the age of its stream', () => {
  for (const { config } of specs)
    if (config.max_age > 0) expect(config.duplicate_window).toBeLessThanOrEqual(config.max_age);
});

test('a lease TTL under two seconds is refused', () => {
  expect(() => streamSpecs(names, { leaseTtlMs: 1_999 })).toThrow(
    expect.objectContaining({ code: 'settings-invalid' }),
  );
});

test('a dropped feature is a lacking capability, any other difference is named by field', () => {
  const spec = streamSpec(specs, 'dlv');
  const { allow_msg_ttl: _, ...older } = spec.config;
  expect(compareStream(spec, older)).toEqual({ differences: [], lacks: ['message-ttl'] });
  expect(compareStream(spec, { ...spec.config, max_age: 5 }).differences).toEqual([
    { field: 'max_age', want: 0, have: 5 },
  ]);
  const { max_consumers: __, ...without } = spec.config;
  expect(compareStream(spec, without).differences).toEqual([
    { field: 'max_consumers', want: 100_000, have: null },
  ]);
});

test('order of subjects and absent zeroes are no difference', () => {
  const spec = streamSpec(specs, 'timers');
  const { deny_delete: _, ...rest } = spec.config;
  const turned = { ...rest, subjects: [...spec.config.subjects].reverse() };
  expect(compareStream(spec, turned)).toEqual({ differences: [], lacks: [] });
});

test('the daemon checks its own streams only', () => {
  expect(deliverySpecs(specs, 'space').map((s) => s.role)).not.toContain('dm');
  expect(deliverySpecs(specs, 'vault')).toHaveLength(8);
});
