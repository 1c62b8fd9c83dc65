declare module 'write-file-atomic' {
  export default function writeFileAtomic(
    file: string,
    data: string | Buffer,
    options?: { readonly mode?: number; readonly fsync?: boolean },
  ): Promise<void>;
}
