/** What a call throws on purpose. A call that returns, or throws anything else, fails the test. */
import { expect } from "vitest";
import { type ErrorCode, HoldfastError } from "../../../src/core/values/errors.js";

export function thrown(run: () => unknown): HoldfastError {
  let answer: unknown;
  try {
    answer = run();
  } catch (error) {
    if (error instanceof HoldfastError) return error;
    throw new Error("it threw an error that is not Holdfast's own", { cause: error });
  }
  throw new Error(`it answered instead of throwing: ${JSON.stringify(answer)}`);
}

export function expectCode(code: ErrorCode, run: () => unknown): void {
  expect(thrown(run).code).toBe(code);
}

/**
 * The rule of INVALID_VALUE: the message begins with the path, and `details.path` says the same as
 * data.
 */
export function expectRefused(path: string, why: string, run: () => unknown): void {
  const { code, message, details } = thrown(run);
  expect({ code, message, path: details.path }).toEqual({
    code: "INVALID_VALUE",
    message: `${path}: ${why}.`,
    path,
  });
}
