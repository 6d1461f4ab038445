/**
 * Give every property test the same cases in every run. HOLDFAST_SEED names other cases; `npm run
 * faults` draws new seeds.
 */
import fc from "fast-check";
import { SEED } from "./random.mjs";

fc.configureGlobal({ seed: SEED });
