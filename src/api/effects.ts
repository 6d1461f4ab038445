/**
 * What people and other programs do about calls: look at those that wait or are in doubt, and
 * decide. None of it needs the lease.
 */
import type { Pending } from "../engine/calls/pending.js";
import type { StoreContext } from "../engine/journal/store-context.js";
import {
  type ApproveOptions,
  approveCall,
  type DenyOptions,
  denyCall,
  type SettleOptions,
  settleCall,
} from "../engine/lifecycle/decide-call.js";
import {
  type EffectFilter,
  type EffectPage,
  getEffect,
  listEffects,
} from "../engine/lifecycle/list-effects.js";

/** Calls that wait for a decision: list, approve, deny and settle them. No call needs a lease. */
export class Effects {
  readonly #ctx: StoreContext;

  constructor(ctx: StoreContext) {
    this.#ctx = ctx;
  }

  /**
   * List calls that wait for a decision, or whose outcome is unknown.
   * Those of the newest sessions come first.
   *
   * @example
   * const { items } = await hold.effects.list({ status: "waiting", agent: "support" });
   */
  list(filter: EffectFilter): Promise<EffectPage> {
    return listEffects(this.#ctx, filter);
  }

  /**
   * Read one call that is not over; undefined if it is.
   *
   * @example
   * const pending = await hold.effects.get("7k3fa1b2c4d5e6f7-12.1");
   */
  get(id: string): Promise<Pending | undefined> {
    return getEffect(this.#ctx, id);
  }

  /**
   * Let a waiting call be made.
   *
   * @example
   * await hold.effects.approve("7k3fa1b2c4d5e6f7-12.1", { by: "ana", note: "small enough" });
   */
  approve(id: string, o?: ApproveOptions): Promise<void> {
    return approveCall(this.#ctx, id, o);
  }

  /**
   * Refuse a waiting call; the model is told why.
   *
   * @example
   * await hold.effects.deny("7k3fa1b2c4d5e6f7-12.1", { by: "ana", reason: "Ask Ana first." });
   */
  deny(id: string, o: DenyOptions): Promise<void> {
    return denyCall(this.#ctx, id, o);
  }

  /**
   * Say what became of a call whose outcome is unknown.
   * Give its output, its error, or `retry: true` if it did not happen and is to be made again.
   *
   * @example
   * await hold.effects.settle("7k3fa1b2c4d5e6f7-12.1", { retry: true, by: "ana" });
   */
  settle(id: string, o: SettleOptions): Promise<void> {
    return settleCall(this.#ctx, id, o);
  }
}
