import { CHANNEL_DEFAULTS_KEY, type DeliveryClass } from '@plane3/protocol';
import { listChannels, setChannel } from '@plane3/space/nats';
import { type MeshContext, withAdmin } from './context.ts';
import { requireChannel } from './member-verbs.ts';
import { table } from './output.ts';
import { proved } from './up.ts';

export async function channelSet(
  mesh: MeshContext,
  channel: string,
  deliveryClass: DeliveryClass,
): Promise<void> {
  if (channel !== CHANNEL_DEFAULTS_KEY) requireChannel(channel);
  const set = await withAdmin(mesh, async (l) =>
    proved(await setChannel(l, channel, { deliveryClass })),
  );
  const value = { channel, class: deliveryClass, revision: set.revision };
  mesh.out.data(value, () => `${channel} is ${deliveryClass}`);
}

export async function channelList(mesh: MeshContext): Promise<void> {
  const rows = await withAdmin(mesh, async (l) => proved(await listChannels(l)));
  const value = rows.map((r) => ({
    channel: r.channel,
    class: r.config.deliveryClass ?? null,
    description: r.config.description ?? null,
    is_default: r.channel === CHANNEL_DEFAULTS_KEY,
  }));
  mesh.out.data(value, () =>
    table(
      ['channel', 'class', 'description'],
      value.map((r) => [r.channel, r.class ?? 'as the defaults say', r.description ?? '']),
    ),
  );
}
