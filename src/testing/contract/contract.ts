/**
 * The contract of a store, as cases that any test runner can loop over:
 *
 *     for (const { name, run } of await contractFor(harness)) test(name, () => run(harness));
 *
 * A case acts on a fresh store and checks what it finds; where the store says it is durable, it is
 * then closed, opened again, and checked once more. Where it says it is not, it must be empty
 * instead. Names begin with the invariants of the port they test (PORT-1 …).
 */
import { callback, invalid } from "../../core/values/check-options.js";
import { CAPABILITIES } from "../../store/capabilities.js";
import { checkStore } from "../../store/check-store.js";
import type { ContractCase, StoreHarness } from "./case.js";
import { claims } from "./claims.js";
import { copies } from "./copies.js";
import { documents } from "./documents.js";
import { inbox } from "./inbox.js";
import { missing } from "./missing.js";
import { moving } from "./moving.js";
import { reclaim } from "./reclaim.js";
import { saves } from "./saves.js";
import { sessions } from "./sessions.js";

/**
 * The tests that every store passes: run each of them with your test runner.
 * Cases that name no capability are the required part.
 */
export const storeContract: readonly ContractCase[] = [
  ...saves,
  ...sessions,
  ...moving,
  ...inbox,
  ...claims,
  ...documents,
  ...reclaim,
  ...copies,
];

/**
 * Choose the cases for one store.
 * They are the required part, and the parts of the capabilities that the store has. Further cases
 * check that calls which need another capability are refused.
 */
export async function contractFor(
  make: () => StoreHarness | Promise<StoreHarness>,
): Promise<readonly ContractCase[]> {
  const harness: Partial<StoreHarness> | undefined = await callback(make, "contractFor.make")?.();
  if (typeof harness?.open !== "function")
    throw invalid("contractFor.make", "give a function that answers a harness of your store");
  const store = checkStore(await harness.open());
  const has = CAPABILITIES.filter((name) => store[name] !== undefined);
  await store.close();
  return [
    ...storeContract.filter(({ needs }) => needs.every((need) => has.includes(need))),
    ...missing.filter(({ needs }) => !needs.some((need) => has.includes(need))),
  ];
}
