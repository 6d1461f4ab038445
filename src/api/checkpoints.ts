/** Looking at checkpoints, and removing them. Needs no lease. */
import type { Checkpoint, CheckpointOptions } from "../core/journal/checkpoint.js";
import { type Diff, diff } from "../core/journal/diff.js";
import { HoldfastError, quote } from "../core/values/errors.js";
import { checkName, checkpointPlace, type Place, sessionId } from "../core/values/ids.js";
import {
  type CheckpointFilter,
  type CheckpointListOptions,
  type CheckpointPage,
  listOfAll,
  listOfSession,
} from "../engine/journal/checkpoint-lists.js";
import { once } from "../engine/journal/receipts.js";
import type { StoreContext } from "../engine/journal/store-context.js";
import { checkpointFromOutside, type OutsideOptions } from "../engine/lifecycle/one-shot-rewind.js";
import { type StateThere, stateThere } from "../engine/lifecycle/read-state.js";
import { requireSession } from "../engine/lifecycle/require-session.js";
import { headOf } from "../engine/records/rows.js";
import { isThere, unlessDamaged } from "../engine/records/tolerate-damage.js";
import { notFound } from "../engine/util/not-found.js";
import type { KeyOptions } from "../engine/util/validate.js";
import { options, type Page } from "../engine/util/validate.js";
import {
  PLANS,
  type PruneOptions,
  type PruneReport,
  prune,
} from "../features/retention/prune-session.js";
import { removeMarks } from "../features/retention/remove-checkpoints.js";
import { scanBranch } from "../features/retention/scan-branch.js";
import { requireCapability } from "../store/capabilities.js";

export interface DeleteCheckpointReport {
  /** False where there is no such checkpoint. */
  readonly deleted: boolean;
  /** How many went: one, or none. */
  readonly checkpoints: number;
}

export interface CheckpointState extends StateThere {
  readonly checkpoint: Checkpoint;
}

/**
 * As many branches may begin alike; a beginning of three inbox messages stands for fewer in all but
 * very large stores.
 */
const MOST_ALIKE = 1_000;

/** Checkpoints of all sessions: list, read, compare and remove them. No call needs a lease. */
export class Checkpoints {
  readonly #ctx: StoreContext;

  constructor(ctx: StoreContext) {
    this.#ctx = ctx;
  }

  /** The place that an id names; undefined where it names none. */
  #place(id: string): Place | undefined {
    this.#ctx.usable();
    return checkpointPlace(id);
  }

  /**
   * Read one checkpoint, without its state.
   *
   * @example
   * const checkpoint = await hold.checkpoints.get("7k3fa1b2c4d5e6f7-12");
   */
  async get(id: string): Promise<Checkpoint | undefined> {
    const place = this.#place(id);
    return place && (await this.#ctx.journal.checkpointAt(place))?.checkpoint;
  }

  /**
   * Tell whether there is such a checkpoint, without loading its state.
   * A damaged one counts as there.
   *
   * @example
   * if (!(await hold.checkpoints.has("7k3fa1b2c4d5e6f7-12"))) console.log("It was pruned.");
   */
  async has(id: string): Promise<boolean> {
    const place = this.#place(id);
    return place !== undefined && (await isThere(() => this.#ctx.journal.checkpointAt(place)));
  }

  /**
   * Find checkpoints by an abbreviated id: the beginning of the branch's id, and the number.
   *
   * @example
   * const [checkpoint] = await hold.checkpoints.find("7k3f-12");
   */
  async find(abbreviation: string): Promise<readonly Checkpoint[]> {
    this.#ctx.usable();
    const given = /^([0-9a-z]{1,16})-([1-9][0-9]{0,9})$/.exec(
      checkName(abbreviation, "checkpoint id"),
    );
    const [, beginning = "", seq = ""] = given ?? [];
    const branches =
      given === null
        ? []
        : await this.#ctx.store.branches({ kind: "beginning", beginning, limit: MOST_ALIKE });
    if (branches.length === MOST_ALIKE)
      throw new HoldfastError(
        "INVALID_ID",
        `${quote(abbreviation)} may stand for very many checkpoints. Say more of it.`,
        {
          found: abbreviation,
        },
      );
    const found: Checkpoint[] = [];
    for (const { id } of branches) {
      const checkpoint = await unlessDamaged(() => this.get(`${id}-${seq}`));
      if (checkpoint !== undefined) found.push(checkpoint);
    }
    return found;
  }

  /**
   * Read the newest checkpoint of a session.
   * The answer is undefined if the session has none, or does not exist.
   *
   * @example
   * const before = await hold.checkpoints.latest("order-42");
   */
  async latest(id: string): Promise<Checkpoint | undefined> {
    const present = await this.#ctx.journal.present(sessionId(id));
    return present && this.#ctx.journal.latest(present.tail, present.branch, present.head.id);
  }

  /**
   * Place a checkpoint at the end of a session that no process holds.
   *
   * @example
   * await hold.checkpoints.create("order-42", { label: "before the refund", key: "request-7" });
   */
  create(id: string, o?: CheckpointOptions & OutsideOptions): Promise<Checkpoint> {
    return checkpointFromOutside(this.#ctx, id, o);
  }

  /**
   * List checkpoints, newest first.
   * With a session's id: those of its past, and with `branches: "all"` also those on branches that
   * it has left by rewinding. With a filter: those of an agent's sessions, or with `{}` of all
   * sessions. The sessions then come in the order of `sessions.list`, and each checkpoint comes
   * once, with the session that owns it.
   *
   * @example
   * const { items, next } = await hold.checkpoints.list("order-42", { limit: 50 });
   * const ofAgent = await hold.checkpoints.list({ agent: "researcher" });
   */
  list(session: string, o?: CheckpointListOptions): Promise<Page<Checkpoint>>;
  list(filter: CheckpointFilter): Promise<CheckpointPage>;
  async list(of: string | CheckpointFilter, o?: CheckpointListOptions): Promise<CheckpointPage> {
    if (typeof of === "object" && of !== null && o === undefined) return listOfAll(this.#ctx, of);
    return listOfSession(this.#ctx, headOf(await requireSession(this.#ctx, of)), o);
  }

  /**
   * Load and verify the state at a checkpoint.
   *
   * @example
   * const { messages, state } = await hold.checkpoints.state("7k3fa1b2c4d5e6f7-12");
   */
  async state(id: string): Promise<CheckpointState> {
    const place = this.#place(id);
    const found = place && (await this.#ctx.journal.checkpointAt(place));
    if (place === undefined || found === undefined) throw notFound(id);
    try {
      const { checkpoint, past } = found;
      const { fold } = await this.#ctx.loader.at(found, { sized: false }, past);
      return {
        checkpoint,
        ...(await stateThere(this.#ctx, checkpoint.sessionId, { fold, past })),
      };
    } catch (error) {
      // It may have been removed while it was being read; that is no damage.
      if (
        error instanceof HoldfastError &&
        error.code === "CORRUPT" &&
        (await this.#ctx.journal.checkpointAt(place)) === undefined
      )
        throw notFound(id);
      throw error;
    }
  }

  /**
   * Compare the states at two checkpoints.
   *
   * @example
   * const { text } = await hold.checkpoints.diff("7k3fa1b2c4d5e6f7-12", "7k3fa1b2c4d5e6f7-20");
   * console.log(text);
   */
  async diff(from: string, to: string): Promise<Diff> {
    return diff(await this.state(from), await this.state(to));
  }

  /**
   * Remove the checkpoints of a session that no rule keeps, and what only they needed.
   * Without rules, those of its agent's policy count, or of the store's. The newest stays, and so
   * do those at which forks begin. Other processes can work meanwhile.
   *
   * @example
   * const { removed } = await hold.checkpoints.prune("order-42", { keep: 20, dryRun: true });
   */
  prune(id: string, o?: PruneOptions): Promise<PruneReport> {
    return prune(this.#ctx, id, o);
  }

  /**
   * Remove one checkpoint.
   * If a fork begins at it, that is a CONFLICT. If there is none, the answer says so; it is no
   * error.
   *
   * @example
   * const { deleted } = await hold.checkpoints.delete("7k3fa1b2c4d5e6f7-12");
   */
  async delete(id: string, o?: KeyOptions): Promise<DeleteCheckpointReport> {
    const { key } = options(o, "checkpoints.delete", ["key"]);
    requireCapability(this.#ctx.store, "reclaim", "hold.checkpoints.delete");
    const answer = (deleted: boolean): DeleteCheckpointReport => ({
      deleted,
      checkpoints: deleted ? 1 : 0,
    });
    return once<boolean, DeleteCheckpointReport>(
      this.#ctx,
      { key, name: "checkpoints.delete", to: checkName(id, "checkpoint id"), args: {} },
      async (receipt) => {
        const isThere = (await this.get(id)) !== undefined;
        if (receipt.isKept)
          receipt.check(await this.#ctx.store.apply([], receipt.docs(isThere), "frees"), 0);
        // Where another call has removed it meanwhile, the receipt already says that it goes by
        // this one.
        return answer(isThere && ((await this.#delete(id)) || receipt.isKept));
      },
      async (isThere) => {
        // KEY-1: ends what was begun.
        if (isThere) await this.#delete(id);
        return answer(isThere);
      },
    );
  }

  /** Answers whether it was there. */
  async #delete(id: string): Promise<boolean> {
    const place = checkpointPlace(id);
    if (place === undefined || (await this.#ctx.journal.checkpointAt(place)) === undefined)
      return false;
    for (let plan = 0; plan < PLANS; plan++) {
      const survey = await scanBranch(this.#ctx, place.branch);
      if ((await removeMarks(this.#ctx, survey, new Set([place.seq]))).done) return true;
    }
    throw new HoldfastError(
      "BUSY",
      `The branch of ${quote(id)} was changed again and again while it was removed. Try again.`,
      {
        checkpointId: id,
      },
    );
  }
}
