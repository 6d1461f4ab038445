/**
 * What `check` answered, read by the rule of `effects.settle`: exactly one defined field, and
 * `retry` only as true.
 */
import { HoldfastError, quote } from "../../core/values/errors.js";
import { typeName } from "../../core/values/ids.js";
import { fieldsOf } from "../../core/values/json.js";
import { readable } from "../util/thrown.js";

export type CheckAnswer =
  /** Still unknown. `why`: it answered something that says nothing. */
  | { readonly is: "unknown"; readonly why?: string }
  | { readonly is: "retry" }
  | { readonly is: "output"; readonly output: unknown }
  | { readonly is: "error"; readonly error: string };

const FIELDS = ["output", "error", "retry"] as const;

export function readCheckAnswer(tool: string, answer: unknown): CheckAnswer {
  if (answer === undefined || answer === null) return { is: "unknown" };
  const says = (found: string): CheckAnswer => ({
    is: "unknown",
    why: `The check of ${quote(tool)} must answer { output }, { error }, { retry: true } or undefined. It answered ${found}.`,
  });
  if (typeof answer !== "object")
    return says(typeof answer === "boolean" ? `${answer}` : `a ${typeof answer}`);
  let fields: Record<string, unknown>;
  try {
    fields = fieldsOf(answer, "check");
  } catch (error) {
    return says(
      error instanceof HoldfastError
        ? `${typeName(answer)} that cannot be read`
        : "a value that cannot be read",
    );
  }
  const given = Object.keys(fields).filter((name) => fields[name] !== undefined);
  const [name] = given;
  if (given.length !== 1 || !(FIELDS as readonly unknown[]).includes(name))
    return says(listed(given));
  if (name === "output") return { is: "output", output: fields["output"] };
  if (name === "retry")
    return fields["retry"] === true
      ? { is: "retry" }
      : says("{ retry } with a value that is not true");
  const { error } = fields;
  return typeof error === "string"
    ? { is: "error", error }
    : says("{ error } with a value that is not text");
}

/** What a check that threw said: no answer, and a reason. */
export function whyCheckFailed(tool: string, thrown: unknown): string {
  const error = readable(thrown);
  return `The check of ${quote(tool)} failed${error instanceof Error ? ` (${error.name})` : ""}.`;
}

function listed(names: readonly string[]): string {
  if (names.length === 0) return "an object without a defined field";
  return `an object with ${names.length === 1 ? "the field" : "the fields"} ${names.slice(0, 5).map(quote).join(", ")}${names.length > 5 ? ", …" : ""}`;
}
