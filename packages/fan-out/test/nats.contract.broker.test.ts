import { copyStoreContract, deadPostsContract, postSourceContract } from '@plane3/fan-out/contract';
import { NatsDeadPosts, NatsPostSource } from '@plane3/fan-out/nats';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { Mesh, NAMES } from './broker.ts';

let mesh: Mesh;
beforeAll(async () => {
  mesh = await Mesh.start();
});
afterAll(() => mesh.stop());

describe('the channel stream on a broker', () => {
  for (const c of postSourceContract) {
    test(c.name, () =>
      c.run(async () => {
        const { chat } = NAMES.streams;
        const more = { max_msgs_per_subject: 5 };
        await mesh.remake(chat, more);
        const { link, api } = await mesh.access();
        return {
          source: new NatsPostSource({ link, api, names: NAMES }),
          prefix: NAMES.prefix,
          publish: (subject, text, headers = []) =>
            mesh.publish(
              subject,
              new TextEncoder().encode(text),
              headers.map((h) => [h, 'x']),
            ),
          recreate: () => mesh.remake(chat, more),
        };
      }),
    );
  }
});

describe('the member store on a broker', () => {
  for (const c of copyStoreContract) {
    test(c.name, () =>
      c.run(async () => {
        const { inbox } = NAMES.streams;
        await mesh.remake(inbox, { max_msg_size: 64 * 1024 });
        return {
          store: mesh.store(await mesh.access()),
          raiseFence: () => mesh.raiseFence(),
          remove: async (seq) => {
            await mesh.call(`STREAM.MSG.DELETE.${inbox}`, { seq });
          },
        };
      }),
    );
  }
});

describe('the dead posts on a broker', () => {
  for (const c of deadPostsContract) {
    test(c.name, () =>
      c.run(async () => {
        await mesh.remake(NAMES.streams.dead, { max_msg_size: 64 * 1024 });
        const { api, publisher } = await mesh.access();
        return new NatsDeadPosts({ api, publisher, names: NAMES });
      }),
    );
  }
});
