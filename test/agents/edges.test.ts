/** What happens at the edges: in the moment between two things, with code of an author's that fails, and with much of everything. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Holdfast, WorkerOptions } from "../../src/index.js";
import { asks, door, Processes, script } from "../support/processes.js";
import { stores } from "../support/stores.js";

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

describe.each(stores.filter(({ name }) => name === "sqlite" || name === "postgres"))("edges on $name", ({ address }) => {
  let on: Processes;
  beforeEach(async () => {
    on = await Processes.on(address());
  });
  afterEach(() => on.close());
  const worker = (hold: Holdfast, o: WorkerOptions) => hold.worker({ pollMs: 50, onSigterm: false, ...o });

  test("a worker that has just started knows the store's clock: nobody asks about its calls before their time is up", async () => {
    let checks = 0;
    const inside = door();
    const botOf = (hold: Holdfast) =>
      hold.agent({
        name: "bot",
        model: script(asks(["act", {}])),
        tools: {
          act: {
            mode: "once",
            timeoutMs: 30_000,
            run: () => {
              inside.open();
              return new Promise(() => {});
            },
            check: () => {
              checks += 1;
              return undefined;
            },
          },
        },
      });
    await botOf(on.start().hold).submit("a", "go");
    const first = on.start({ leaseMs: 200 });
    void worker(first.hold, { agents: [botOf(first.hold)], leaseMs: 200 }).drain({ maxMs: 60_000 });
    await inside.opened;
    first.lose();
    const stop = new AbortController();
    const second = botOf(on.start().hold).resume("a", { signal: stop.signal });
    await pause(700);
    stop.abort();
    await second;
    expect(checks).toBe(0);
  });
});
