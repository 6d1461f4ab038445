/** Anchors of the branches of one tenant. The tenants of a file share one file of anchors. */
import type { Save } from "../../../core/journal/save.js";
import { digest } from "../../../core/values/digest.js";
import type { AnchorFile } from "../../anchors.js";
import type { TailAnchor, TailAnchors } from "../../port/copies.js";
import { translate } from "./driver/committer.js";
import type { Driver, Statement } from "./driver/driver.js";

/**
 * A branch as its anchor names it. One that was brought over from another tenant has the same id in
 * both; their names stay theirs.
 */
const anchorOf = (tenant: string, branch: string): string =>
  tenant === "" ? branch : `${branch}@${digest(tenant).slice(0, 16)}`;
const branchOf = (anchor: string): string => anchor.split("@")[0] as string;

/**
 * Answers how to find whether a branch that this process has written was deleted, or its session
 * was: its end is then no loss.
 */
export function findGone(db: Driver, tenant: string): (anchor: string) => boolean {
  const find = db.prepare(
    "SELECT 1 FROM branch WHERE tenant = ? AND id = ? AND session IS NOT NULL",
  );
  return (anchor) => find.get(tenant, branchOf(anchor)) === undefined;
}

export class TenantAnchors {
  readonly #db: Driver;
  readonly #anchors: AnchorFile;
  readonly #tenant: string;
  #cutBranch: Statement | undefined;

  constructor(db: Driver, anchors: AnchorFile, tenant: string) {
    this.#db = db;
    this.#anchors = anchors;
    this.#tenant = tenant;
  }

  note({ branch, seq, check }: Save): void {
    this.#anchors.note(anchorOf(this.#tenant, branch), seq, check);
  }

  /**
   * Anchors of branches that were cut on purpose are no tail anchors: another process may have
   * written them after that.
   */
  async read(of?: ReadonlySet<string>): Promise<TailAnchors> {
    const ofTenant = (branch: string) => anchorOf(this.#tenant, branch);
    const all = await this.#anchors.read(of && new Set([...of].map(ofTenant)));
    const named = (anchor: TailAnchor | undefined): TailAnchor | undefined => {
      const branch = anchor && branchOf(anchor.branch);
      return branch === undefined || this.#wasCut(branch)
        ? undefined
        : { ...(anchor as TailAnchor), branch };
    };
    return {
      of: (branch) => named(all.of(ofTenant(branch))),
      *[Symbol.iterator]() {
        for (const anchor of all) {
          const own =
            ofTenant(branchOf(anchor.branch)) === anchor.branch ? named(anchor) : undefined;
          if (own !== undefined) yield own;
        }
      },
    };
  }

  #wasCut(branch: string): boolean {
    try {
      this.#cutBranch ??= this.#db.prepare("SELECT 1 FROM cut_branch WHERE tenant = ? AND id = ?");
      return this.#cutBranch.get(this.#tenant, branch) !== undefined;
    } catch (error) {
      throw translate(error);
    }
  }

  async close(): Promise<void> {
    await this.#anchors.close();
  }
}
