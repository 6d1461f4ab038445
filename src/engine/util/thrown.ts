/**
 * What callers' functions throw and answer may be anything: a Proxy whose traps throw, an error
 * whose message is a getter that throws.
 */

/** What was thrown; where reading it throws, an error that says so. */
export function readable(thrown: unknown): unknown {
  try {
    void (thrown instanceof Error);
    if (typeof thrown === "object" && thrown !== null)
      for (const field of READ) void (thrown as Record<string, unknown>)[field];
    return thrown;
  } catch {
    return new Error("It threw a value that cannot be read.");
  }
}

/** The fields of an error that are looked at anywhere. */
const READ = ["name", "message", "code", "status", "statusCode", "isRetryable", "stack", "cause"];

/** A function has answered, and its answer cannot be read: it has done what it does. */
export class UnreadableAnswer extends Error {
  override readonly name = "UnreadableAnswer";
}

/**
 * The answer of a function, before it is waited for: reading its `then` may throw, and that is no
 * failure of the function.
 */
export function answerOf<T>(answer: T): T {
  try {
    void (answer as { readonly then?: unknown } | null | undefined)?.then;
    return answer;
  } catch {
    throw new UnreadableAnswer("It answered with a value that cannot be read.");
  }
}
