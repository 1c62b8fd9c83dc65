import type { Publisher, PublishRefusal, Stored } from '@plane3/link';
import {
  chatSubject,
  HEADER,
  isPublishable,
  type Lifecycle,
  type Message,
  type Outcome,
  principalId,
  refused,
} from '@plane3/protocol';
import type { PostOptions } from './model.ts';

export type PostRefusal = PublishRefusal | 'malformed';

export interface PostSender {
  readonly space: string;
  /** `cotal.<space token>`. */
  readonly prefix: string;
  readonly lifecycle: Lifecycle;
  readonly name: string;
  readonly role: string | undefined;
}

/** Builds the message of SPEC 5 and has it stored under its own id (wire contract section 3). */
export function postTo(
  publisher: Publisher,
  from: PostSender,
  channel: string,
  text: string,
  o: PostOptions & { readonly id: string },
): Promise<Outcome<Stored, PostRefusal>> {
  const { mentions, data, replyTo, contextId, id } = o;
  const message: Message = {
    id,
    ts: Date.now(),
    space: from.space,
    from: {
      id: principalId(from.lifecycle),
      name: from.name,
      ...(from.role === undefined ? {} : { role: from.role }),
    },
    channel,
    parts: [
      { kind: 'text', text },
      ...(data === undefined ? [] : [{ kind: 'data' as const, data }]),
    ],
    ...(mentions === undefined || mentions.length === 0
      ? {}
      : { mentions: mentions.map((m) => m.trim().toLowerCase()) }),
    ...(replyTo === undefined ? {} : { replyTo }),
    ...(contextId === undefined ? {} : { contextId }),
  };
  if (id === '' || !isPublishable(message))
    return Promise.resolve(refused('malformed', 'not a message of the wire contract'));
  const body = new TextEncoder().encode(JSON.stringify(message));
  return publisher.publish(chatSubject(from.prefix, from.lifecycle, channel), body, [
    [HEADER.msgId, id],
  ]);
}
