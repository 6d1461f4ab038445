/**
 * Does damage to copies of a store, one at a time, and says how each went. In a process of its own:
 * damage may hang or crash it.
 */
import { readFileSync } from "node:fs";
import { hear, say } from "../../support/children/said.mjs";
import { askAll, damage, judge, place } from "./flip-store.mjs";

const { path, files: names, ids, rule } = hear();
const files = Object.fromEntries(
  Object.entries(names).map(([suffix, name]) => [suffix, readFileSync(name)]),
);
place(path, files);
const truth = await askAll(path, ids);
say({ ready: true });
for (;;) {
  const job = hear();
  place(path, damage(files, job));
  const answers = await askAll(path, ids);
  say({ job, ...judge(truth, answers, rule) });
}
