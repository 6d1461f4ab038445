/** A store with some of its calls replaced. */
import type { Store } from "../../../src/store/port.js";

export const wrapped = (store: Store, calls: Partial<Store>): Store =>
  new Proxy(store, {
    get(target, name) {
      const value: unknown = target[name as keyof Store];
      return (
        calls[name as keyof Store] ?? (typeof value === "function" ? value.bind(target) : value)
      );
    },
  });
