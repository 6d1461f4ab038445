import type { MailDoc } from "../../../src/engine/records/rows.js";
import type { Posted } from "../../../src/store/port/inbox.js";
import type { Store } from "../../../src/store/port.js";
export function post(store: Store, session: string, doc: MailDoc, id?: string): Promise<Posted>;
export function settle(
  store: Store,
  session: string,
  effectId: string,
  asked: number,
  as: { readonly output: unknown } | { readonly error: string } | { readonly retry: true },
): Promise<Posted>;
