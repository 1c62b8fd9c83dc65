import { type ApiRefusal, Bucket, BucketView, Publisher, type PublishRefusal } from '@plane3/link';
import {
  CHANNEL_DEFAULTS_KEY,
  type ChannelConfig,
  channelConfigSchema,
  done,
  isChannel,
  type Outcome,
  Plane3Error,
  parseRecord,
  refused,
} from '@plane3/protocol';
import { z } from 'zod';
import type { AdminLinks } from './links.ts';

export interface ConfiguredChannel {
  /** A concrete channel, or `=defaults`. */
  readonly channel: string;
  readonly config: ChannelConfig;
  readonly revision: number;
}

type ChannelRefusal = ApiRefusal | PublishRefusal;

/**
 * Changes some fields of a channel's configuration and keeps the others. The display copy in the
 * space account is the daemon's work.
 * @throws Plane3Error `settings-invalid` before anything is written
 */
export async function setChannel(
  links: AdminLinks,
  channel: string,
  change: ChannelConfig,
): Promise<Outcome<ConfiguredChannel, ChannelRefusal>> {
  if (!isChannel(channel) && channel !== CHANNEL_DEFAULTS_KEY)
    throw new Plane3Error('settings-invalid', { detail: `not a channel: ${channel}` });
  const checked = channelConfigSchema.safeParse(change);
  if (!checked.success)
    throw new Plane3Error('settings-invalid', { detail: z.prettifyError(checked.error) });
  const link = await links.get('operator-vault');
  const publisher = new Publisher(link);
  try {
    const bucket = new Bucket(link, publisher, links.names.buckets.channels);
    const known = await bucket.get(channel);
    if (known.kind !== 'done') return known;
    const old = known.value && parseRecord(channelConfigSchema, known.value.value);
    const config: ChannelConfig = { ...old, ...checked.data };
    const value = new TextEncoder().encode(JSON.stringify(config));
    const put = await bucket.put(channel, value, known.value?.revision ?? 0);
    if (put.kind === 'refused' && put.reason === 'wrong-sequence')
      return refused('conflict', put.detail);
    return put.kind === 'done' ? done({ channel, config, revision: put.value }) : put;
  } finally {
    publisher.close();
  }
}

/** Every configured channel and the defaults, by name. */
export async function listChannels(
  links: AdminLinks,
): Promise<Outcome<ConfiguredChannel[], ChannelRefusal>> {
  const link = await links.get('operator-vault');
  const view = new BucketView<ChannelConfig>(link, links.names.buckets.channels, {
    parse: (bytes) => parseRecord(channelConfigSchema, bytes),
  });
  const started = await view.start();
  if (started.kind !== 'done') return started;
  const rows = [...view.entries()].map(([channel, { value, revision }]) => ({
    channel,
    config: value,
    revision,
  }));
  await view.stop();
  return done(rows.sort((a, b) => a.channel.localeCompare(b.channel)));
}
