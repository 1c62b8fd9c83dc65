import { describe, expect, it } from 'vitest';
import {
  bucketStream,
  bucketSubject,
  channelConfigSchema,
  checkpointSpecKey,
  checkpointStatusKey,
  done,
  effectiveClass,
  leaseKey,
  leaseRowSchema,
  parseRecord,
  presenceSchema,
  refused,
  rightsRowSchema,
  spaceNames,
  timerRequestSchema,
  unknown,
} from '../src/index.ts';

describe('records (wire contract section 4)', () => {
  it('the class of a channel is its own, else the default, else durable', () => {
    const live = { deliveryClass: 'live' } as const;
    const durable = { deliveryClass: 'durable' } as const;
    expect(effectiveClass(live, durable)).toBe('live');
    expect(effectiveClass(durable, live)).toBe('durable');
    expect(effectiveClass({}, live)).toBe('live');
    expect(effectiveClass(undefined, live)).toBe('live');
    expect(effectiveClass({}, {})).toBe('durable');
    expect(effectiveClass(undefined, undefined)).toBe('durable');
  });

  it('a channel has windows of s, m, h or d and bounded texts', () => {
    const ok = (v: unknown) => channelConfigSchema.safeParse(v).success;
    expect(ok({})).toBe(true);
    expect(ok({ replay: true, replayWindow: '24h', deliveryClass: 'live', extra: 1 })).toBe(true);
    expect(ok({ replayWindow: '24' })).toBe(false);
    expect(ok({ replayWindow: '24h ' })).toBe(false);
    expect(ok({ deliveryClass: 'Live' })).toBe(false);
    expect(ok({ description: 'x'.repeat(201) })).toBe(false);
    expect(ok({ instructions: 'x'.repeat(2_001) })).toBe(false);
  });

  it('a rights row holds patterns only', () => {
    const row = {
      name: 'a',
      allowSubscribe: ['team.>'],
      issuedAllowSubscribe: ['>'],
      revision: 0,
      updatedAt: 1,
    };
    expect(parseRecord(rightsRowSchema, JSON.stringify({ ...row, extra: 1 }))).toEqual({
      ...row,
      extra: 1,
    });
    expect(
      parseRecord(rightsRowSchema, JSON.stringify({ ...row, allowSubscribe: ['a b'] })),
    ).toBeUndefined();
    expect(parseRecord(rightsRowSchema, JSON.stringify({ ...row, revision: -1 }))).toBeUndefined();
    expect(
      parseRecord(rightsRowSchema, JSON.stringify({ ...row, allowSubscribe: undefined })),
    ).toBeUndefined();
  });

  it('a timer request holds nothing but its four fields', () => {
    const ok = (v: unknown) => timerRequestSchema.safeParse(v).success;
    const request = { v: 1, timerId: 't', generation: 1, deadline: 0 };
    expect(ok(request)).toBe(true);
    expect(ok({ ...request, generation: 0 })).toBe(false);
    expect(ok({ ...request, generation: 1.5 })).toBe(false);
    expect(ok({ ...request, v: 2 })).toBe(false);
    expect(ok({ ...request, more: 1 })).toBe(false);
  });

  it('the lease names holder, incarnation and host', () => {
    const lease = {
      holder: 'local.delivery',
      incarnation: 'i',
      since: 1,
      ready: false,
      host: { boot: 'b', pid: 1, start: 's' },
    };
    expect(leaseRowSchema.safeParse(lease).success).toBe(true);
    expect(leaseRowSchema.safeParse({ ...lease, host: undefined }).success).toBe(false);
  });

  it('presence is of an agent or an endpoint in one of four states', () => {
    const presence = {
      card: { id: 'local.a', name: 'a', kind: 'agent' },
      status: 'idle',
      lifecycleUid: 'u',
      ts: 1,
    };
    expect(presenceSchema.safeParse(presence).success).toBe(true);
    expect(presenceSchema.safeParse({ ...presence, status: 'away' }).success).toBe(false);
  });

  it('what is no JSON is no record, and nothing throws', () => {
    for (const text of ['', '{', 'null', '[]', '{}', '['.repeat(10_000)])
      expect(parseRecord(leaseRowSchema, text)).toBeUndefined();
    expect(parseRecord(leaseRowSchema, new Uint8Array([0xff]))).toBeUndefined();
  });

  it('keys and subjects of rows', () => {
    expect(leaseKey(0)).toBe('lease.0');
    expect(checkpointSpecKey('x', 't')).toBe('cp.x.t.spec');
    expect(checkpointStatusKey('x', 't')).toBe('cp.x.t.status');
    expect(bucketStream('cotal_acl_main')).toBe('KV_cotal_acl_main');
    expect(bucketSubject('cotal_acl_main', 'k')).toBe('$KV.cotal_acl_main.k');
  });
});

describe('names of a space', () => {
  it('are those of the wire contract', () => {
    expect(spaceNames('My Space')).toEqual({
      space: 'My Space',
      token: 'My_Space',
      prefix: 'cotal.My_Space',
      streams: {
        chat: 'CHAT_My_Space',
        dm: 'DM_My_Space',
        task: 'TASK_My_Space',
        dlv: 'DLV_My_Space',
        timerRequests: 'EPT_REQ_My_Space',
        timers: 'EPT_My_Space',
        contracts: 'EPC_My_Space',
        inbox: 'INBOX_My_Space',
        dead: 'DEAD_My_Space',
      },
      buckets: {
        presence: 'cotal_presence_My_Space',
        channels: 'cotal_channels_My_Space',
        members: 'cotal_members_My_Space',
        acl: 'cotal_acl_My_Space',
        lease: 'cotal_delivery_My_Space',
        records: 'cotal_records_My_Space',
        state: 'cotal_state_My_Space',
        membership: 'cotal_membership_My_Space',
      },
      durables: { fanout: 'fanout', timers: 'timerw_My_Space' },
    });
  });
});

describe('an outcome', () => {
  it('is done, refused or unknown', () => {
    expect(done(1)).toEqual({ kind: 'done', value: 1 });
    expect(refused('conflict', 'why')).toEqual({
      kind: 'refused',
      reason: 'conflict',
      detail: 'why',
    });
    expect(refused('conflict')).toEqual({ kind: 'refused', reason: 'conflict', detail: '' });
    expect(unknown('timeout')).toEqual({ kind: 'unknown', cause: 'timeout' });
  });
});
