/** Check a store that a program brings: that each call which it must have is there. */
import { invalid } from "../core/values/check-options.js";
import { CAPABILITIES, type Capability } from "./capabilities.js";
import type { Capabilities, Store } from "./port.js";

type Method = Exclude<keyof Store, Capability | "traits" | "gone" | "cursorKey">;

const METHODS = [
  "apply",
  "session",
  "sessions",
  "branches",
  "saves",
  "blob",
  "now",
  "watch",
  "info",
  "check",
  "close",
] as const satisfies readonly Method[];

const CALLS: { readonly [C in Capability]: readonly (keyof NonNullable<Capabilities[C]>)[] } = {
  inbox: ["post", "list"],
  claims: ["claim"],
  documents: ["get", "list", "pins", "capture"],
  reclaim: ["replace", "cut", "sweep", "compact", "scrub"],
  copies: ["generation", "begin", "backup", "anchors"],
  index: ["find", "exists", "begin", "behind", "missing", "next", "put", "purge"],
};

const TRAITS = ["durable", "oneMachine", "shared"] as const;

/** Answer the store, or throw INVALID_OPTION, which names what is missing or of a wrong type. */
export function checkStore(given: unknown): Store {
  requireObject(given, "store");
  const store = given as Partial<Store>;
  for (const name of METHODS) requireCall(store, name, "store");
  requireObject(store.traits, "store.traits");
  for (const name of TRAITS)
    if (typeof store.traits[name] !== "boolean")
      throw invalid(`store.traits.${name}`, "it must be true or false");
  for (const capability of CAPABILITIES) {
    const found = store[capability];
    if (found === undefined) continue;
    const path = `store.${capability}`;
    requireObject(found, path);
    for (const name of CALLS[capability]) requireCall(found, name, path);
  }
  if (store.gone !== undefined && !(store.gone instanceof AbortSignal))
    throw invalid("store.gone", "it must be an AbortSignal");
  if (store.cursorKey !== undefined && typeof store.cursorKey !== "string")
    throw invalid("store.cursorKey", "it must be a text");
  return given as Store;
}

function requireCall(of: object, name: string, path: string): void {
  if (typeof Reflect.get(of, name) !== "function")
    throw invalid(
      `${path}.${name}`,
      "it must be a function; the page docs/store.md says what it does",
    );
}

function requireObject(value: unknown, path: string): asserts value is object {
  if (typeof value !== "object" || value === null) throw invalid(path, "it must be an object");
}
