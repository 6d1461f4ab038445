/** How a session stands in a store. */
import type { Checkpoint, Holdfast } from "../../index.js";
import type { Standing } from "./plan.js";

export async function standingOf(hold: Holdfast, id: string): Promise<Standing | undefined> {
  const summary = await hold.sessions.get(id);
  if (summary === undefined) return undefined;
  return {
    summary,
    checkpoints: await checkpointsOf(hold, id),
    latest: await hold.checkpoints.latest(id),
  };
}

export async function checkpointsOf(hold: Holdfast, id: string): Promise<Standing["checkpoints"]> {
  const found: Pick<Checkpoint, "id" | "metadata">[] = [];
  for (let cursor: string | undefined; ; ) {
    const page = await hold.checkpoints.list(id, {
      branches: "all",
      limit: 1_000,
      ...(cursor !== undefined && { cursor }),
    });
    for (const { id: own, metadata } of page.items) found.push({ id: own, metadata });
    if (page.next === undefined) return found;
    cursor = page.next;
  }
}
