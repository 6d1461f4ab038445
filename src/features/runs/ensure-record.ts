/** An agent that is run has a record, from its first run on. */
import { HoldfastError } from "../../core/values/errors.js";
import { redacted } from "../../engine/journal/redact-agent.js";
import type { StoreContext } from "../../engine/journal/store-context.js";
import {
  type AgentDoc,
  checkAgent,
  MAX_NAMES,
  MAX_SYSTEM,
  putAgent,
} from "../../engine/records/agent-record.js";
import { documentsOf } from "../../store/capabilities.js";
import { AGENT } from "../../store/port/documents.js";
import type { Definition } from "./define/compile-agent.js";

/**
 * Makes the record of an agent where there is none. One that is there stays as it is: it is for
 * people and programs to change.
 */
export async function ensureAgent(ctx: StoreContext, definition: Definition): Promise<void> {
  const { name } = definition;
  if (ctx.knownAgents.has(name) || ctx.store.documents === undefined) return;
  if ((await documentsOf(ctx.store).get(AGENT, name)) === undefined) {
    // Where another process was quicker, its record is as good.
    await ctx.store.apply([], [putAgent(recordFor(ctx, definition), undefined)]);
  }
  ctx.knownAgents.add(name);
}

/**
 * What a record cannot hold is no reason not to run: it is left out, and named in the metadata
 * (`leftOut`).
 */
function recordFor(ctx: StoreContext, { name, system, tools, version }: Definition): AgentDoc {
  const isText = typeof system === "string";
  const fits = isText && system.length <= MAX_SYSTEM && system.isWellFormed();
  const leftOut = [
    ...(isText && !fits ? ["system"] : []),
    ...(tools.size > MAX_NAMES ? ["capabilities"] : []),
  ];
  const full = checkAgent({
    id: name,
    ...(fits && { system }),
    capabilities: [...tools.keys()].slice(0, MAX_NAMES),
    config: version === undefined ? {} : { version },
    ...(leftOut.length > 0 && { metadata: { leftOut } }),
  });
  try {
    return redacted(ctx.redactor, full.next(undefined, ctx.wallMs()));
  } catch (error) {
    // What a hook made of it is too long, or no name any more.
    if (
      !(error instanceof HoldfastError) ||
      (error.code !== "TOO_LARGE" && error.code !== "INVALID_ID")
    )
      throw error;
    return checkAgent({
      id: name,
      metadata: { leftOut: ["system", "capabilities", "config"] },
    }).next(undefined, ctx.wallMs());
  }
}
