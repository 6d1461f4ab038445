/**
 * The contract of a store, as cases that any test runner can loop over:
 *
 *     for (const { name, run } of storeContract) test(name, () => run(harness));
 *
 * A case acts on a fresh store and checks what it finds; where the store says it is durable, it is
 * then closed, opened again, and checked once more. Where it says it is not, it must be empty
 * instead. Names begin with the invariants of the port they test (P1 …).
 */
import type { ContractCase } from "./case.js";
import { claims } from "./claims.js";
import { docs } from "./docs.js";
import { incarnation } from "./incarnation.js";
import { moving } from "./moving.js";
import { removal } from "./removal.js";
import { rewording } from "./rewording.js";
import { saves } from "./saves.js";
import { sessions } from "./sessions.js";

/** The tests that every store passes: run each of them with your test runner. */
export const storeContract: readonly ContractCase[] = [
  ...saves,
  ...sessions,
  ...claims,
  ...removal,
  ...rewording,
  ...moving,
  ...docs,
  ...incarnation,
];
