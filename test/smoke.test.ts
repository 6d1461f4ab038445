import { expect, test } from "vitest";
import { open } from "../src/index.js";
import { stores } from "./support/stores.js";

test.each(stores)("$name: a session by hand", async ({ address }) => {
  await using hold = await open(address());
  const session = await hold.session("a");
  session.append({ role: "user", content: "hi" });
  await session.checkpoint();
  expect(session.messages).toHaveLength(1);
});
