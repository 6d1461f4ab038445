/** Real processes on one file: what they were told is held against the history that is left. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { open } from "../../../dist/index.js";
import { start } from "../../support/children/child.mjs";

/**
 * `processes` compete for one session, or work on sessions of their own. Answers what is wrong, and
 * how often somebody lost. The first one stands still with the session until another was refused
 * it, or, where processes stall, until another has taken it and saved.
 */
export async function compete({
  address,
  processes,
  count,
  seed,
  own = false,
  leaseMs,
  waitMs,
  stallMs,
  doubleWrite,
}) {
  const directory = mkdtempSync(join(tmpdir(), "holdfast-compete-"));
  const path = address ?? join(directory, "store.db");
  const names = Array.from({ length: processes }, (_, i) => `p${i}`);
  const idsOf = (name) => (own ? [`${name}-a`, `${name}-b`, `${name}-c`] : ["shared"]);
  const children = names.map(() => start(new URL("./compete-child.mjs", import.meta.url)));
  const wrong = [];
  const lost = { LEASE_HELD: 0, STALE_LEASE: 0 };
  try {
    const tell = (child, i, more = {}) =>
      child.tell({
        path,
        name: names[i],
        ids: idsOf(names[i]),
        count,
        seed: seed + i,
        leaseMs,
        waitMs,
        stallMs,
        doubleWrite,
        ...more,
      });
    const [first, ...others] = children;
    tell(first, 0, { standsFirst: !own });
    if (!own) await first.heard((line) => line.stands ?? line.fault);
    for (const [i, child] of others.entries()) tell(child, i + 1);
    if (!own) {
      const lost =
        stallMs === undefined ? (line) => line.lost === "LEASE_HELD" : (line) => line.saved;
      await Promise.any(others.map((child) => child.heard((line) => lost(line) ?? line.fault)));
      first.tell({ go: true });
    }
    await Promise.all(children.map(({ closed }) => closed));
    const saved = new Map();
    for (const [i, child] of children.entries()) {
      for (const line of child.lines) {
        if (line.fault) wrong.push(`${names[i]}: ${line.fault}`);
        if (line.saved) saved.set(line.session, [...(saved.get(line.session) ?? []), line]);
        if (line.lost) lost[line.lost] += 1;
        if (
          line.lost === "LEASE_HELD" &&
          !(/^process \d+$/.test(line.details.holder) && line.details.remainingMs > 0)
        )
          wrong.push(`LEASE_HELD does not say who holds it: ${JSON.stringify(line.details)}`);
        if (line.lost === "STALE_LEASE" && line.aborted === false)
          wrong.push(`${names[i]} was superseded and its signal did not abort`);
      }
      if (child.lines.at(-1)?.ended === undefined)
        wrong.push(`${names[i]} did not come to its end: ${child.stderr}`);
    }
    const hold = await open(path);
    try {
      for (const id of new Set(names.flatMap(idsOf))) {
        wrong.push(
          ...(await linear(
            hold,
            id,
            saved.get(id) ?? [],
            own ? names.filter((name) => idsOf(name).includes(id)) : names,
            count,
          )),
        );
      }
      const verdict = await hold.verify();
      if (!verdict.ok) wrong.push(`verify: ${JSON.stringify(verdict.findings.slice(0, 3))}`);
    } finally {
      await hold.close();
    }
  } finally {
    for (const child of children) await child.end();
    rmSync(directory, { recursive: true, force: true });
  }
  return { seed, wrong: wrong.map((what) => `seed ${seed}: ${what}`), lost };
}

/**
 * One history: every acknowledged message once, each writer's in its order, every checkpoint the
 * parent of the next.
 */
async function linear(hold, id, saved, writers, count) {
  const wrong = [];
  const checkpoints = [];
  for (let cursor; ; ) {
    const page = await hold.checkpoints.list(id, {
      limit: 1000,
      ...(cursor === undefined ? {} : { cursor }),
    });
    checkpoints.push(...page.items);
    if (page.next === undefined) break;
    cursor = page.next;
  }
  for (const [i, { id: at, parentId }] of checkpoints.entries())
    if (parentId !== checkpoints[i + 1]?.id)
      wrong.push(`${at} has the parent ${parentId}, and ${checkpoints[i + 1]?.id} is before it`);
  const places = new Set(checkpoints.map(({ id: at }) => at));
  for (const { checkpoint, saved: text } of saved)
    if (!places.has(checkpoint))
      wrong.push(`${text} was acknowledged at ${checkpoint}, which is gone`);
  const { messages } = await hold.checkpoints.state(checkpoints[0].id);
  for (const writer of writers) {
    const numbers = messages
      .map(({ content }) => content)
      .filter((text) => text.startsWith(`${writer} `))
      .map((text) => Number(text.split(" ")[1]));
    const expected = Array.from({ length: count }, (_, n) => n);
    if (numbers.join() !== expected.join())
      wrong.push(`of ${writer} there are ${numbers.join()} instead of 0..${count - 1}`);
  }
  return wrong;
}
