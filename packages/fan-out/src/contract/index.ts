export type { Case } from './case.ts';
export { type CopyStoreUnderTest, copyStoreContract } from './copy-store.ts';
export { deadPostsContract } from './dead-posts.ts';
export { type PostSourceUnderTest, postSourceContract } from './post-source.ts';
