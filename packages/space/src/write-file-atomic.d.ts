/** The package ships no types; this is the part of it that is used here. */
declare module 'write-file-atomic' {
  interface WriteOptions {
    readonly mode?: number;
    readonly encoding?: string;
    /** Default true: the bytes are on the disk before the name is. */
    readonly fsync?: boolean;
  }
  interface WriteFileAtomic {
    (path: string, data: string | Uint8Array, options?: WriteOptions): Promise<void>;
    sync(path: string, data: string | Uint8Array, options?: WriteOptions): void;
  }
  const writeFileAtomic: WriteFileAtomic;
  export default writeFileAtomic;
}
