/** A redaction beside a restore that is under way: what it took out does not come back. */
import { describe, expect, test } from "vitest";
import { Holdfast } from "../../../src/holdfast.js";
import { openStore } from "../../../src/open.js";
import { thisMachine } from "../../../src/store/machine.js";
import type { Store } from "../../../src/store/port.js";
import { wrapped } from "../../support/failures/wrapped.js";
import { door } from "../../support/processes.js";
import { stores } from "../../support/stores.js";

const over = (store: Store) =>
  new Holdfast(store, thisMachine(), { now: Date.now }, 30_000, { indexed: false });

describe.each(stores)("on $name", ({ address }) => {
  test("a restore that has read the snapshot before is refused, and done the second time", async () => {
    const store = await openStore(address());
    const hold = over(store);
    await hold.agents.save({ id: "ann", name: "Ann" });
    const session = await hold.session("s", { agent: "ann", title: "call SECRET77 now" });
    session.append({ role: "user", content: "hello SECRET77" });
    await session.checkpoint();
    const { id } = await hold.agents.snapshot("ann");
    session.append({ role: "user", content: "more" });
    await session.checkpoint();
    await session.close();

    const { opened, open } = door();
    const reads = door();
    const slow = wrapped(store, {
      saves: async (branch, query) => {
        reads.open();
        await opened;
        return store.saves(branch, query);
      },
    });
    const restoring = over(slow).agents.restore(id);
    await reads.opened;
    await hold.sessions.redact("s", "SECRET77");
    open();
    await expect(restoring).rejects.toMatchObject({ code: "BUSY", retryable: true });
    expect((await hold.sessions.get("s"))?.title).toBe("call [redacted] now");
    await hold.agents.restore(id);
    expect((await hold.sessions.get("s"))?.title).toBe("call [redacted] now");
    expect(JSON.stringify(await hold.sessions.state("s"))).not.toContain("SECRET77");
    await hold.close();
  });
});
