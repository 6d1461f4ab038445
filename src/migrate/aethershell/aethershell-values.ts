/** Values of AetherShell, tagged with their type, as plain JSON. */
import type { Json, JsonObject } from "../../index.js";
import { at, isObject, listAt } from "../reading/fields.js";
import type { FileReport } from "../reading/report.js";

interface Plain {
  readonly value: Json;
  /** Whether the plain view says less than the tagged one. */
  readonly isLossy: boolean;
}

const exact = (value: Json): Plain => ({ value, isLossy: false });
const lossy = (value: Json): Plain => ({ value, isLossy: true });

/**
 * `onNaN` is told of a number that was none: it was written as null, and its own program cannot
 * read it any more.
 */
function plainOf(tagged: Json, onNaN: () => void): Plain {
  if (tagged === "Null") return exact(null);
  const [entry, ...more] = isObject(tagged) ? Object.entries(tagged) : [];
  // A variant that came later, or none at all, stays as it stands.
  if (entry === undefined || more.length > 0) return exact(tagged);
  const [tag, inner] = entry;
  switch (tag) {
    case "Bool":
    case "Str":
      return exact(inner);
    case "Int":
      // One past a double was read as text.
      return typeof inner === "string" ? lossy(inner) : exact(inner);
    case "Float":
      if (inner === null) onNaN();
      return inner === null || Number.isInteger(inner) ? lossy(inner) : exact(inner);
    case "Uri":
      return lossy(inner);
    case "Array":
      return Array.isArray(inner) ? listOf(inner as readonly Json[], onNaN) : exact(tagged);
    case "Record":
      return isObject(inner) ? recordOf(inner, onNaN) : exact(tagged);
    case "Table": {
      const rows = listOf(
        (isObject(inner) ? listAt(inner, "rows") : undefined) ?? [],
        onNaN,
        (row) => (isObject(row) ? recordOf(row, onNaN) : exact(row)),
      );
      return lossy({
        schema: (isObject(inner) ? at(inner, "schema") : undefined) ?? [],
        rows: rows.value,
      });
    }
    case "Error":
      return lossy({ error: inner });
    case "Builtin":
      return lossy({
        _type: "Builtin",
        name: (isObject(inner) ? at(inner, "name") : undefined) ?? null,
      });
    case "Lambda":
      return lossy("<lambda>");
    case "AsyncLambda":
      return lossy("<async lambda>");
    case "Future":
      return lossy("<future>");
    default:
      return exact(tagged);
  }
}

function listOf(
  items: readonly Json[],
  onNaN: () => void,
  each = (item: Json): Plain => plainOf(item, onNaN),
): Plain {
  const plain = items.map(each);
  return { value: plain.map(({ value }) => value), isLossy: plain.some(({ isLossy }) => isLossy) };
}

/** Object.fromEntries takes any key for what it is, `__proto__` as well. */
function recordOf(fields: JsonObject, onNaN: () => void): Plain {
  const plain = Object.entries(fields).map(([key, value]) => [key, plainOf(value, onNaN)] as const);
  return {
    value: Object.fromEntries(plain.map(([key, { value }]) => [key, value])),
    isLossy: plain.some(([, { isLossy }]) => isLossy),
  };
}

export interface PlainMap {
  readonly plain: JsonObject;
  /** As they stood, those whose plain view says less; undefined where none does. */
  readonly tagged: JsonObject | undefined;
}

const NOT_A_NUMBER =
  "A number that is none (NaN or infinite) was written as null: it is read as null.";

/** The values of a map such as `config`. */
export function plainMap(map: JsonObject | undefined, told: FileReport): PlainMap {
  const fields = Object.entries(map ?? {}).map(
    ([name, value]) => [name, value, plainOf(value, () => told.note(NOT_A_NUMBER))] as const,
  );
  const kept = fields.filter(([, , { isLossy }]) => isLossy);
  return {
    plain: Object.fromEntries(fields.map(([name, , { value }]) => [name, value])),
    tagged:
      kept.length === 0
        ? undefined
        : Object.fromEntries(kept.map(([name, value]) => [name, value])),
  };
}
