export type { ConsumerConfig, ConsumerInfo, StreamInfo } from '@nats-io/jetstream';
export type { Msg, MsgHdrs, NatsConnection } from '@nats-io/nats-core';
export { API_TIMEOUT_MS, type ApiRefusal, JetStreamApi, type NamedConsumerConfig } from './api.ts';
export { Bucket, isBrokerMade, isMarker, type KvEntry } from './bucket.ts';
export { BucketView, type ViewOptions, type ViewState } from './bucket-view.ts';
export { type CredentialFacts, type CredentialSource, credentialFacts } from './credential.ts';
export type { BatchRead } from './direct-batch.ts';
export type { HeaderList } from './header-block.ts';
export { Link, openLink } from './link.ts';
export type {
  Denial,
  Denial as Denied,
  LinkEvent,
  LinkEventKind,
  LinkOptions,
  LinkSubscription,
} from './link-types.ts';
export { type PublishAnswer, Publisher, type PublishRefusal, type Stored } from './publisher.ts';
export type { StoredMessage } from './stored-message.ts';
export { translate } from './translate.ts';
export { type Transport, tlsOptions } from './transport.ts';
export type { ViewRow } from './view-rows.ts';
