/**
 * The store contract on a directory that two stores have open. Each call goes to the other one:
 * none may know less than all there is.
 */

import { join } from "node:path";
import { describe, test } from "vitest";
import { openDir } from "../../../src/store/dir/open.js";
import type { Traits } from "../../../src/store/port/info.js";
import type { Store } from "../../../src/store/port.js";
import { storeContract } from "../../../src/testing/index.js";
import { type Call, through } from "../../support/failures/wrapped.js";
import { eachNth } from "../../support/runs.js";
import { scratch } from "../../support/stores.js";

const traits: Traits = { durable: true, oneMachine: true, shared: true, inBulk: true };

function callOf(store: Store, name: Call, args: readonly unknown[]): unknown {
  const [of, own = ""] = name.split(".");
  const target: object = own === "" ? store : (store[of as keyof Store] as object);
  const method = Reflect.get(target, own === "" ? name : own) as (...given: unknown[]) => unknown;
  return method.apply(target, [...args]);
}

/**
 * Gives each call to the other store. Calls that are made side by side go to one of them: only that
 * one knows their order.
 */
function inTurns(stores: readonly [Store, Store]): Store {
  let turn: 0 | 1 = 0;
  let running = 0;
  return through(stores[0], (name, call, args) => {
    if (name === "close") return Promise.all(stores.map((store) => store.close())).then(() => {});
    if (running === 0) turn = turn === 0 ? 1 : 0;
    const answer = turn === 0 ? call() : callOf(stores[1], name, args);
    if (!(answer instanceof Promise)) return answer;
    running += 1;
    return answer.finally(() => {
      running -= 1;
    });
  });
}

describe("the store contract on a directory that two processes write in turns", () => {
  const root = scratch();
  let count = 0;
  test.each(eachNth(6, storeContract))("$name", async ({ run }) => {
    await run(() => {
      const path = join(root, `store-${++count}`);
      const open = async (tenant?: string) => {
        const options = tenant === undefined ? {} : { tenant };
        return inTurns([await openDir(path, options), await openDir(path, options)]);
      };
      return { traits, open };
    });
  });
});
