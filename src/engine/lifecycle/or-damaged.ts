/** Name a session of a list that cannot be shown, instead of failing the list. */
import { HoldfastError } from "../../core/values/errors.js";
import type { StoreContext } from "../journal/store-context.js";
import type { Damaged } from "../util/validate.js";

/** What is answered about a session. If it is damaged, undefined, and `damaged` names it. */
export async function orDamaged<T>(
  { store }: StoreContext,
  session: string,
  damaged: Damaged[],
  ask: () => Promise<T>,
): Promise<T | undefined> {
  try {
    return await ask();
  } catch (error) {
    if (!(error instanceof HoldfastError) || error.code !== "CORRUPT") throw error;
    // What is missing may have been deleted with the session, a moment ago.
    if ((await store.session(session)).row !== undefined)
      damaged.push({ id: session, message: error.message });
    return undefined;
  }
}
