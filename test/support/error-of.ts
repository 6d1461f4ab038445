import { expect } from "vitest";

/** What a call is refused with. One that is accepted fails the test. */
export async function errorOf(call: () => unknown): Promise<unknown> {
  try {
    await call();
  } catch (error) {
    return error;
  }
  return expect.fail("it was accepted");
}
