/**
 * What the tools of a campaign do: they reach the world, which is a ledger, and behave there as
 * their inputs say.
 */
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { NotDone } from "../../../dist/index.js";
import { instant } from "./agent-points.mjs";

export class Tools {
  #ledger;
  #points;
  #rng;
  #run;
  #declared;
  #broken;

  constructor({ ledger, points, rng, run, declared, broken }) {
    this.#ledger = ledger;
    this.#points = points;
    this.#rng = rng;
    this.#run = run;
    this.#declared = declared;
    this.#broken = broken;
  }

  aMoment() {
    return this.#rng.next() < 0.5 ? undefined : sleep(this.#rng.between(0, 3));
  }

  /**
   * Acts, unless it is refused or was known. `where`: what its points are called by. `says`: what
   * else the ledger is to hold.
   */
  async act(
    name,
    input,
    { key, callId, session, set },
    { where = "inside-tool", says, entered = instant() } = {},
  ) {
    await this.aMoment();
    this.#points.at(`${where}-before-act`);
    const before = this.#ledger.under(key);
    const how = input.inFlight?.[before.length] ?? "act";
    const branch = {
      name,
      key,
      input,
      session: session.id,
      callId,
      pid: process.pid,
      run: this.#run,
      entered,
      ...says,
    };
    if (how === "refuse") {
      this.#ledger.write({ ...branch, n: instant(), did: "nothing" });
      throw new NotDone("refused");
    }
    const known =
      this.#declared[name].mode === "keyed" ? before.find(({ did }) => did === "acted") : undefined;
    const receipt = known?.receipt ?? randomUUID();
    this.#ledger.write({
      ...branch,
      n: instant(),
      did: known === undefined ? "acted" : "deduped",
      receipt,
    });
    this.#points.at(`${where}-after-act`);
    await this.aMoment();
    if (how === "hang") await new Promise(() => {});
    // The broken tool takes every failure for one before the act.
    if (how === "drop")
      throw this.#broken === "errors-as-outcomes"
        ? new NotDone("socket hang up")
        : new Error("socket hang up");
    set(callId, receipt);
    return { receipt, ...(input.pad && { pad: "p".repeat(input.pad) }) };
  }

  /** Looks whether it happened. The broken ones always say the same. */
  async check({ key, input, holder }) {
    await this.aMoment();
    this.#points.at("inside-check");
    const act = this.#ledger.actUnder(key);
    if (this.#broken === "check-says-retry") return { retry: true };
    if (this.#broken === "check-says-nothing-happened") return { error: "it did not happen" };
    if (act !== undefined)
      return { output: { receipt: act.receipt, ...(input.pad && { pad: "p".repeat(input.pad) }) } };
    return holder === "dead" ? { retry: true } : undefined;
  }
}
