/** File systems on which what was acknowledged can be lost, or a lock taken twice. */
import { statfsSync } from "node:fs";
import { HoldfastError, quote } from "../core/values/errors.js";

// Magic numbers of file systems on which locks or syncs cannot be relied on: NFS, SMB, CIFS, SMB2,
// AFS, Coda, 9p, Ceph.
const NETWORK: ReadonlySet<number> = new Set([
  0x6969, 0x517b, 0xff534d42, 0xfe534d42, 0x5346414f, 0x73757245, 0x01021997, 0x00c36400,
]);

// FUSE, VirtualBox, VMware, Lustre, GPFS, BeeGFS, GFS2, OCFS2, kAFS: some of them are on a network,
// or lock on one machine alone.
const PERHAPS: ReadonlySet<number> = new Set([
  0x65735546, 0x786f4256, 0xbacbacbc, 0x0bd00bd0, 0x47504653, 0x19830326, 0x01161970, 0x7461636f,
  0x6b414653,
]);

/**
 * Whether a file system may be one of a network: a store is opened there, or looked at, and
 * `holdfast doctor` warns.
 */
export const mayBeOnNetwork = (type: number): boolean =>
  process.platform === "linux" && (NETWORK.has(type) || PERHAPS.has(type));

export const isOnNetwork = (directory: string): boolean =>
  process.platform === "linux" && NETWORK.has(statfsSync(directory).type);

export function refuseNetworkFileSystem(directory: string): void {
  if (isOnNetwork(directory)) {
    throw new HoldfastError(
      "UNSUPPORTED",
      `${quote(directory)} is on a network file system, where a store can lose what it acknowledged. Use a local disk, or Postgres.`,
    );
  }
}
