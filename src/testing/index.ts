/** For those who write a store: the contract it must pass. */
export type {
  Anchor,
  Applied,
  Change,
  Counts,
  Freed,
  Head,
  Label,
  LeaseRow,
  LineQuery,
  LineRow,
  Mail,
  NewLine,
  NewSave,
  Posted,
  Present,
  Refusal,
  Replacement,
  SaveQuery,
  SessionQuery,
  SessionRow,
  Store,
  Traits,
} from "../store/port.js";
export type { ContractCase, StoreHarness } from "./case.js";
export { storeContract } from "./contract.js";
