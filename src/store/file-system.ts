/** File systems on which what was acknowledged can be lost, or a lock taken twice. */
import { statfsSync } from "node:fs";
import { HoldfastError, quote } from "../core/errors.js";

// Magic numbers of file systems on which locks or syncs cannot be relied on: NFS, SMB, CIFS, SMB2, AFS, Coda, 9p, Ceph.
const NETWORK: ReadonlySet<number> = new Set([0x6969, 0x517b, 0xff534d42, 0xfe534d42, 0x5346414f, 0x73757245, 0x01021997, 0x00c36400]);

export const isOnNetwork = (directory: string): boolean => process.platform === "linux" && NETWORK.has(statfsSync(directory).type);

export function refuseNetworkFileSystem(directory: string): void {
  if (isOnNetwork(directory)) {
    throw new HoldfastError(
      "UNSUPPORTED",
      `${quote(directory)} is on a network file system, where a store can lose what it acknowledged. Use a local disk, or Postgres.`,
    );
  }
}
