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
  LineRow,
  Mail,
  NewLine,
  NewSave,
  Refusal,
  Replacement,
  SaveQuery,
  SessionQuery,
  SessionRow,
  Store,
  Traits,
} from "../store/port.js";
export { type ContractCase, type StoreHarness, storeContract } from "./contract.js";
