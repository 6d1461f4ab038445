import type { Json } from "../../src/index.js";
import type { Store } from "../../src/store/port.js";
export function settle(
  store: Store,
  effect: string,
  as: { readonly result: Json } | { readonly error: string } | { readonly retry: true },
): Promise<void>;
