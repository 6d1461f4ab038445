/** Anchors of the lines of one tenant. The tenants of a file share one file of anchors. */
import type { Save } from "../../../core/journal/save.js";
import { digest } from "../../../core/values/digest.js";
import type { AnchorFile } from "../../anchors.js";
import type { TailAnchor, TailAnchors } from "../../port/copies.js";
import { translate } from "./driver/committer.js";
import type { Driver, Statement } from "./driver/driver.js";

/**
 * A line as its anchor names it. One that was brought over from another tenant has the same id in
 * both; their names stay theirs.
 */
const anchorOf = (tenant: string, line: string): string =>
  tenant === "" ? line : `${line}@${digest(tenant).slice(0, 16)}`;
const lineOf = (anchor: string): string => anchor.split("@")[0] as string;

/**
 * Answers how to find whether a line that this process has written was deleted, or its session was:
 * its end is then no loss.
 */
export function findGone(db: Driver, tenant: string): (anchor: string) => boolean {
  const find = db.prepare("SELECT 1 FROM line WHERE tenant = ? AND id = ? AND session IS NOT NULL");
  return (anchor) => find.get(tenant, lineOf(anchor)) === undefined;
}

export class TenantAnchors {
  readonly #db: Driver;
  readonly #anchors: AnchorFile;
  readonly #tenant: string;
  #cutLine: Statement | undefined;

  constructor(db: Driver, anchors: AnchorFile, tenant: string) {
    this.#db = db;
    this.#anchors = anchors;
    this.#tenant = tenant;
  }

  note({ line, seq, check }: Save): void {
    this.#anchors.note(anchorOf(this.#tenant, line), seq, check);
  }

  /**
   * Anchors of lines that were cut on purpose are no tail anchors: another process may have written
   * them after that.
   */
  async read(of?: ReadonlySet<string>): Promise<TailAnchors> {
    const ofTenant = (line: string) => anchorOf(this.#tenant, line);
    const all = await this.#anchors.read(of && new Set([...of].map(ofTenant)));
    const named = (anchor: TailAnchor | undefined): TailAnchor | undefined => {
      const line = anchor && lineOf(anchor.line);
      return line === undefined || this.#wasCut(line)
        ? undefined
        : { ...(anchor as TailAnchor), line };
    };
    return {
      of: (line) => named(all.of(ofTenant(line))),
      *[Symbol.iterator]() {
        for (const anchor of all) {
          const own = ofTenant(lineOf(anchor.line)) === anchor.line ? named(anchor) : undefined;
          if (own !== undefined) yield own;
        }
      },
    };
  }

  #wasCut(line: string): boolean {
    try {
      this.#cutLine ??= this.#db.prepare("SELECT 1 FROM cut_line WHERE tenant = ? AND id = ?");
      return this.#cutLine.get(this.#tenant, line) !== undefined;
    } catch (error) {
      throw translate(error);
    }
  }

  async close(): Promise<void> {
    await this.#anchors.close();
  }
}
