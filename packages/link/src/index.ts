export type { ConsumerConfig, ConsumerInfo, StreamInfo } from '@nats-io/jetstream';
export type { Msg, MsgHdrs, NatsConnection } from '@nats-io/nats-core';
export { type ApiRefusal, JetStreamApi, type NamedConsumerConfig } from './api.ts';
export { BucketView, type ViewOptions, type ViewState } from './bucket-view.ts';
export type { Batch } from './direct-batch.ts';
export type { HeaderPairs } from './header-block.ts';
export { Bucket, type KvEntry } from './kv.ts';
export type {
  Denied,
  Link,
  LinkEvent,
  LinkEventKind,
  LinkOptions,
  LinkSubscription,
} from './link.ts';
export { openLink } from './open-link.ts';
export { Publisher, type PublishOutcome, type PublishRefusal, type Stored } from './publisher.ts';
export type { StoredMessage } from './stored-message.ts';
export type { Transport } from './transport.ts';
export type { ViewRow } from './view-rows.ts';
