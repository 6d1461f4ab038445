/**
 * What people and other programs do about calls: look at those that wait or are in doubt, and
 * decide. None of it needs the lease.
 */
import type { Pending } from "../engine/calls/pending.js";
import type { Ground } from "../engine/journal/ground.js";
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

export class Effects {
  readonly #ground: Ground;

  constructor(ground: Ground) {
    this.#ground = ground;
  }

  /**
   * Calls that wait for somebody, or of which nobody knows what became; those of the newest
   * sessions first.
   */
  list(filter: EffectFilter): Promise<EffectPage> {
    return listEffects(this.#ground, filter);
  }

  /** One call that is not over, or undefined. */
  get(id: string): Promise<Pending | undefined> {
    return getEffect(this.#ground, id);
  }

  /** Lets a call that waits be made, with another input if that is given. */
  approve(id: string, o?: ApproveOptions): Promise<void> {
    return approveCall(this.#ground, id, o);
  }

  /** A call that waits is not made; the model is told why. */
  deny(id: string, o: DenyOptions): Promise<void> {
    return denyCall(this.#ground, id, o);
  }

  /**
   * Says what became of a call: its output, its error, or that it did not happen and is to be made
   * again.
   */
  settle(id: string, o: SettleOptions): Promise<void> {
    return settleCall(this.#ground, id, o);
  }
}
