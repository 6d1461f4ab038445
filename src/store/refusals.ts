/** What every store says in the same words. */
import { HoldfastError } from "../core/errors.js";

export const storeClosed = (): HoldfastError => new HoldfastError("CLOSED", "The store has been closed. Open it again.");

export const queueFull = (limit: number): HoldfastError =>
  new HoldfastError("BUSY", `${limit} writes are waiting already. Wait for some of them before starting more.`, { limit });
