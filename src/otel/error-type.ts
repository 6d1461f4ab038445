/**
 * What kind of error it was, in a word that holds nothing of what was said. `message`, `name`,
 * `code` and `stack` may: a program, or a server that it asked, puts into them what it likes. So a
 * code counts where it is one of a closed list, and else the name of the class, which stands in
 * source code.
 */
import { constants } from "node:os";
import { errorTable, HoldfastError } from "../core/values/errors.js";

/** What the OpenTelemetry conventions say where no better word is known. */
export const OTHER = "_OTHER";
const IDENTIFIER = /^[A-Za-z_$][\w$]{0,63}$/;
/** What a signal aborts with: one class for both, so their names are told. */
const ABORTS = ["AbortError", "TimeoutError"];

export function errorType(error: unknown): string {
  try {
    if (!(error instanceof Error)) return OTHER;
    if (error instanceof HoldfastError)
      return Object.hasOwn(errorTable, error.code) ? error.code : OTHER;
    const { code } = error as NodeJS.ErrnoException;
    if (typeof code === "string" && Object.hasOwn(constants.errno, code)) return code;
    if (error instanceof DOMException && ABORTS.includes(error.name)) return error.name;
    return classOf(error);
  } catch {
    // A getter of the error's own.
    return OTHER;
  }
}

/** Of its prototype: what stands on the error itself is data. */
function classOf(error: Error): string {
  const made: unknown = (Object.getPrototypeOf(error) as { readonly constructor?: unknown } | null)
    ?.constructor;
  const name: unknown = typeof made === "function" ? made.name : undefined;
  return typeof name === "string" && IDENTIFIER.test(name) ? name : OTHER;
}
