import { copyStoreContract, deadPostsContract, postSourceContract } from '@plane3/fan-out/contract';
import {
  MemoryChat,
  MemoryCopyStore,
  MemoryDeadPosts,
  MemoryInbox,
  MemoryPostSource,
} from '@plane3/fan-out/memory';
import { describe, test } from 'vitest';
import { PREFIX } from './world.ts';

describe('the channel stream in memory', () => {
  for (const c of postSourceContract) {
    test(c.name, () =>
      c.run(async () => {
        const chat = new MemoryChat(PREFIX);
        chat.perSubjectMax = 5;
        return {
          source: new MemoryPostSource(chat),
          prefix: PREFIX,
          publish: async (subject, text, brokerHeaders = []) =>
            chat.publish(subject, new TextEncoder().encode(text), { brokerHeaders }),
          recreate: async () => chat.recreate('b2'),
        };
      }),
    );
  }
});

describe('the member store in memory', () => {
  for (const c of copyStoreContract) {
    test(c.name, () =>
      c.run(async () => {
        const inbox = new MemoryInbox();
        inbox.bytesMax = 64 * 1024;
        return {
          store: new MemoryCopyStore(inbox),
          raiseFence: async () => inbox.raiseFence(),
          remove: async (storeSeq) => inbox.remove(storeSeq),
        };
      }),
    );
  }
});

describe('the dead posts in memory', () => {
  for (const c of deadPostsContract) test(c.name, () => c.run(async () => new MemoryDeadPosts()));
});
