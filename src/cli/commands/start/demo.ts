import { command, flag } from "../../framework/command.js";

export const demo = command({
  name: "demo",
  group: "begin",
  says: "an agent is killed in the middle of its tool calls and goes on; no key, no network",
  store: false,
  options: { keep: flag("its files stay, to look at with other commands") },
  examples: [["holdfast demo --keep", "then: holdfast ls --store …, as it says"]],
  async run({ options: { keep, json } }) {
    const report = await (await import("../../demo/demo.js")).demo({ keep, silent: json });
    return { json: { ...report }, lines: [], exit: report.ok ? 0 : 1 };
  },
});
