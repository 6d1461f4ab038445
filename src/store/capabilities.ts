/** What a store may have besides its required methods, and what is said where it has not. */
import { HoldfastError } from "../core/values/errors.js";
import type { StoreDocuments } from "./port/documents.js";
import type { StoreInbox } from "./port/inbox.js";
import type { Capabilities, Store } from "./port.js";

export type Capability = keyof Capabilities;

export const CAPABILITIES = [
  "inbox",
  "claims",
  "documents",
  "reclaim",
  "copies",
  "index",
] as const satisfies readonly Capability[];

/** What a store is told to do where it lacks one. */
const USES: Record<Capability, string> = {
  inbox: "post to a session from outside",
  claims: "give out sessions to workers",
  documents: "keep documents",
  reclaim: "take back what it holds",
  copies: "be copied",
  index: "keep an index for search",
};

/** A store that has them all, but for an index. */
export type WholeStore = Store & Required<Omit<Capabilities, "index">>;

/** Answer a capability of the store, or fail with UNSUPPORTED. `call` is what the caller ran. */
export function requireCapability<C extends Capability>(
  store: Store,
  name: C,
  call: string,
): NonNullable<Store[C]> {
  const found = store[name];
  if (found === undefined) throw unsupported(name, call);
  return found;
}

const unsupported = (capability: Capability, call: string): HoldfastError =>
  new HoldfastError(
    "UNSUPPORTED",
    `${call} needs the capability \`${capability}\`, and this store cannot ${USES[capability]}. Use a store that has it, or add \`${capability}\` to yours (docs/store.md).`,
    { capability },
  );

/** The store's inbox; where it has none, no session has messages. */
export const inboxOf = (store: Store): StoreInbox => store.inbox ?? NO_INBOX;

const NO_INBOX: StoreInbox = {
  list: async () => [],
  post: async () => {
    throw unsupported("inbox", "A message to a session");
  },
};

/** The store's documents; where it keeps none, there are none to be found. */
export const documentsOf = (store: Store): StoreDocuments => store.documents ?? NO_DOCUMENTS;

const NO_DOCUMENTS: StoreDocuments = {
  get: async () => undefined,
  list: async () => [],
  pins: async () => [],
  capture: async () => {
    throw unsupported("documents", "A look at an agent's sessions");
  },
};

/**
 * A store of which all calls go through `around`, those of its capabilities too: it is given the
 * name of a call (`apply`, `inbox.post`) and how to make it.
 */
export function intercepted<T extends object>(
  target: T,
  around: (name: string, call: () => unknown, args: readonly unknown[]) => unknown,
  of = "",
): T {
  const known = new Map<PropertyKey, unknown>();
  const own = (name: string, value: unknown): unknown => {
    if (typeof value === "function")
      return (...args: unknown[]) =>
        around(`${of}${name}`, (): unknown => Reflect.apply(value, target, args), args);
    const isCapability = of === "" && (CAPABILITIES as readonly string[]).includes(name);
    return isCapability && value !== undefined
      ? intercepted(value as object, around, `${name}.`)
      : undefined;
  };
  const get = (_: T, name: PropertyKey): unknown => {
    const value: unknown = known.get(name) ?? Reflect.get(target, name, target);
    if (typeof name === "symbol" || known.has(name)) return value;
    const through = own(String(name), value);
    if (through !== undefined) known.set(name, through);
    return through ?? value;
  };
  return new Proxy(target, { get });
}
