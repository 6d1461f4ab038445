import { describe, expect, test } from "vitest";
import {
  type CheckpointOptions,
  checkMetadata,
  checkOptions,
  checkText,
  MAX_DESCRIPTION,
  MAX_LABEL,
  MAX_METADATA_BYTES,
} from "../../src/core/checkpoint.js";
import { thrown } from "./thrown.js";

const given = (options: unknown) => checkOptions(options as CheckpointOptions);

function expectInvalid(path: string, run: () => unknown): void {
  const { code, details } = thrown(run);
  expect({ code, path: details.path }).toEqual({ code: "INVALID_OPTION", path });
}

describe("checkOptions", () => {
  test("a text is a label, and nothing is nothing", () => {
    expect(checkOptions("before the refund")).toEqual({ label: "before the refund" });
    expect(checkOptions(undefined)).toEqual({});
  });

  test("every option passes as it is", () => {
    const all: CheckpointOptions = {
      label: "l",
      description: "d",
      kind: "recovery",
      step: 0,
      tokenCount: 7,
      tasksCompleted: Number.MAX_SAFE_INTEGER,
      metadata: { a: [1] },
    };
    expect(checkOptions(all)).toEqual(all);
    for (const kind of ["automatic", "manual", "pre-operation", "recovery"] as const) expect(checkOptions({ kind })).toEqual({ kind });
  });

  test.each([
    ["checkpoint", null],
    ["checkpoint", []],
    ["checkpoint", 5],
    ["checkpoint.lable", { lable: "x" }],
    ["checkpoint.label", { label: 5 }],
    ["checkpoint.label", { label: "\ud83d" }],
    ["checkpoint.description", { description: null }],
    ["checkpoint.kind", { kind: "auto" }],
    ["checkpoint.step", { step: -1 }],
    ["checkpoint.step", { step: 1.5 }],
    ["checkpoint.tokenCount", { tokenCount: "7" }],
    ["checkpoint.tasksCompleted", { tasksCompleted: 2 ** 53 }],
    ["checkpoint.metadata", { metadata: [] }],
    ["checkpoint.metadata", { metadata: null }],
  ])("%s: %j is refused", (path, options) => expectInvalid(path, () => given(options)));

  test.each([
    ["label", MAX_LABEL],
    ["description", MAX_DESCRIPTION],
  ])("D8: a %s has at most %i characters", (field, limit) => {
    expect(given({ [field]: "x".repeat(limit) })).toEqual({ [field]: "x".repeat(limit) });
    const { code, details } = thrown(() => given({ [field]: "x".repeat(limit + 1) }));
    expect({ code, details }).toEqual({ code: "TOO_LARGE", details: { path: `checkpoint.${field}`, limit } });
  });

  test("V2: each option is read once, so a getter cannot show the check one value and the journal another", () => {
    let reads = 0;
    const fickle = {
      get label() {
        reads += 1;
        return reads === 1 ? "fine" : 5;
      },
    };
    expect(given(fickle)).toEqual({ label: "fine" });
  });
});

describe("checkMetadata", () => {
  test("V3: answers a frozen copy", () => {
    const mine = { list: [1] };
    const copy = checkMetadata(mine, "metadata");
    mine.list.push(2);
    expect(copy).toEqual({ list: [1] });
    expect(Object.isFrozen(copy) && Object.isFrozen(copy.list)).toBe(true);
  });

  test("what is not JSON is refused with its path", () => {
    expect(thrown(() => checkMetadata({ at: new Date() }, "metadata")).message).toBe("metadata.at: Date is not JSON.");
  });

  test("D8: at most a mebibyte, counted in bytes", () => {
    const text = (bytes: number) => "x".repeat(bytes - '{"t":""}'.length);
    expect(checkMetadata({ t: text(MAX_METADATA_BYTES) }, "metadata")).toBeDefined();
    const { code, details } = thrown(() => checkMetadata({ t: text(MAX_METADATA_BYTES + 1) }, "metadata"));
    expect({ code, details }).toEqual({ code: "TOO_LARGE", details: { path: "metadata", limit: MAX_METADATA_BYTES } });
  });
});

test("checkText takes well-formed text up to its limit", () => {
  expect(checkText("für 👩", "reason", 6)).toBe("für 👩");
  expect(thrown(() => checkText("für 👩", "reason", 5)).code).toBe("TOO_LARGE");
  expectInvalid("reason", () => checkText("\udc00", "reason", 5));
  expectInvalid("reason", () => checkText(undefined, "reason", 5));
});
