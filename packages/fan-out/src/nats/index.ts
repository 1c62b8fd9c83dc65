export { NatsCopyStore, type NatsCopyStoreOptions } from './copy-store.ts';
export {
  DEAD_BODY_HEADER,
  DEAD_DETAIL_HEADER,
  DEAD_SUBJECT_HEADER,
  NatsDeadPosts,
} from './dead-posts.ts';
export { NatsPostSource } from './post-source.ts';
