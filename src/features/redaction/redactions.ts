/** The ready set of redactions, as callers choose from it. */
import {
  makeRedactions,
  type RedactionChoices,
  type Redactions,
  redactionNames,
} from "../../core/redaction/redactions.js";
import { flag, invalid, options } from "../../engine/util/validate.js";

/** Which redactions are made, and the words that stand in the place of a text. */
export interface RedactionOptions extends RedactionChoices {
  /**
   * Whether inputs of calls are gone over as well: false by default. A tool is run with the
   * input that is kept, so one that needs an address to write to would be given what stands in
   * its place.
   */
  readonly toolInputs?: boolean;
}

/**
 * Make a set of redactions for keys, tokens, card numbers and e-inbox messages addresses.
 * You can turn each off, or give other words to stand in its place. It is for `open(…, { redact })`
 * and for `sessions.redact`.
 *
 * @example
 * const hold = await open("agent.db", { redact: redactions({ emails: false }) });
 */
export function redactions(given?: RedactionOptions): Redactions {
  const { toolInputs, ...choices } = options(given, "redactions", [
    ...redactionNames,
    "toolInputs",
  ]);
  for (const name of redactionNames) {
    const chosen: unknown = choices[name];
    if (
      chosen !== undefined &&
      typeof chosen !== "boolean" &&
      (typeof chosen !== "string" || !chosen.isWellFormed())
    )
      throw invalid(
        `redactions.${name}`,
        "it must be true, false, or a text to stand in its place",
      );
  }
  const all = makeRedactions({}, false);
  for (const name of redactionNames) {
    const chosen = choices[name];
    if (typeof chosen === "string" && all.everywhere(chosen) !== chosen)
      throw invalid(
        `redactions.${name}`,
        "what is to stand in its place would be taken for something to redact",
      );
  }
  return makeRedactions(choices, flag(toolInputs, "redactions.toolInputs") ?? false);
}
