/** A store with some of its calls replaced. */
import {
  CAPABILITIES,
  type Capability,
  intercepted,
  type WholeStore,
} from "../../../src/store/capabilities.js";
import type { Capabilities, Store } from "../../../src/store/port.js";

/** Calls to put in the place of a store's own, and of its capabilities' own. */
export type Replaced = Partial<Omit<Store, Capability>> & {
  readonly [C in Capability]?: Partial<NonNullable<Capabilities[C]>>;
};

/** All that a store can be asked, by its name: `apply`, `inbox.post`. */
export type Call =
  | Exclude<keyof Store, Capability>
  | { [C in Capability]: `${C}.${keyof NonNullable<Capabilities[C]> & string}` }[Capability];

export const wrapped = (store: Store, calls: Replaced): WholeStore =>
  new Proxy(store as WholeStore, {
    get(target, name) {
      const value: unknown = target[name as keyof Store];
      const own: unknown = calls[name as keyof Replaced];
      if (!CAPABILITIES.includes(name as Capability))
        return own ?? (typeof value === "function" ? value.bind(target) : value);
      return own === undefined ? value : merged(value as object, own as object);
    },
  });

/** A capability is an object of functions, and a search index may be an instance of a class. */
const merged = (value: object, own: object): object =>
  new Proxy(value, {
    get(target, name) {
      const found = Reflect.get(own, name) ?? Reflect.get(target, name, target);
      return typeof found === "function" && !(name in own) ? found.bind(target) : found;
    },
  });

/** A store of which all calls go through a function. */
export const through = (
  store: Store,
  around: (name: Call, call: () => unknown, args: readonly unknown[]) => unknown,
): WholeStore =>
  intercepted(store as WholeStore, (name, call, args) => around(name as Call, call, args));
