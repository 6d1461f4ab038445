/**
 * What a model is given before the transcript: system text and tools. Pinned while a turn lasts, so
 * that a program that was changed in between does not change the ground under a run: providers
 * refuse reasoning that was signed under another prefix.
 */
import { jsonIn } from "../../core/journal/blob-body.js";
import type { ToolDescription } from "../../core/messages/model.js";
import { type Digest, digest } from "../../core/values/digest.js";
import { HoldfastError } from "../../core/values/errors.js";
import { type Encoded, encode } from "../../core/values/json.js";
import type { Redactor } from "../../engine/journal/redactor.js";
import type { StoreContext } from "../../engine/journal/store-context.js";
import { invalid } from "../../engine/util/validate.js";
import type { Definition } from "./define/compile-agent.js";

export interface Prefix {
  readonly system: string;
  readonly tools: readonly ToolDescription[];
}

/** The prefix as the program has it today. */
export async function prefixOf(
  { system, descriptions }: Definition,
  about: unknown,
  redactor: Redactor | undefined,
): Promise<{ readonly prefix: Prefix; readonly encoded: Encoded; readonly digest: Digest }> {
  const text: unknown = typeof system === "function" ? await system(about) : (system ?? "");
  if (typeof text !== "string") throw invalid("agent.system", "it must give text");
  const given = encode({ system: text, tools: descriptions }, "system");
  const encoded = redactor?.encoded(given, { in: "system" }, "system") ?? given;
  return { prefix: encoded.value as unknown as Prefix, encoded, digest: digest(encoded.text) };
}

/** The prefix as it was recorded. */
export async function storedPrefix({ journal }: StoreContext, name: Digest): Promise<Prefix> {
  const prefix = jsonIn(
    Buffer.from(await journal.blob(name)).toString("utf8"),
    name,
  ) as unknown as Prefix;
  if (typeof prefix?.system === "string" && Array.isArray(prefix.tools)) return prefix;
  throw new HoldfastError("CORRUPT", `The blob ${name} does not hold a system text and tools.`, {
    found: name,
  });
}
