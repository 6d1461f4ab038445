import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  type CheckpointOptions,
  checkMetadata,
  checkOptions,
  checkpointFrom,
  checkpointOf,
  checkText,
  MAX_DESCRIPTION,
  MAX_LABEL,
  MAX_METADATA_BYTES,
  type Mark,
  markText,
} from "../../../src/core/journal/checkpoint.js";
import { seal } from "../../../src/core/journal/seal-save.js";
import { digest } from "../../../src/core/values/digest.js";
import { branchId, type SessionId } from "../../../src/core/values/ids.js";
import { thrown } from "../values/thrown.js";

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
    for (const kind of ["automatic", "manual", "pre-operation", "recovery"] as const)
      expect(checkOptions({ kind })).toEqual({ kind });
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
    expect({ code, details }).toEqual({
      code: "TOO_LARGE",
      details: { path: `checkpoint.${field}`, limit },
    });
  });

  test("VALUE-2: each option is read once, so a getter cannot show the check one value and the journal another", () => {
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

describe("options that are not what they seem", () => {
  test("D9: a name that is unknown is quoted and bounded", () => {
    expectInvalid('checkpoint["\\u001b[2J"]', () => given({ "\u001b[2J": 1 }));
    expect(thrown(() => given({ ["k".repeat(1_000_000)]: 1 })).message.length).toBeLessThan(200);
  });

  test("a getter or proxy that throws is refused with its path", () => {
    const fail = () => {
      throw new Error("no");
    };
    expectInvalid("checkpoint.step", () =>
      given(Object.defineProperty({}, "step", { enumerable: true, get: fail })),
    );
    expectInvalid("checkpoint", () => given(new Proxy({}, { ownKeys: fail })));
    const { proxy, revoke } = Proxy.revocable({}, {});
    revoke();
    expectInvalid("checkpoint", () => given(proxy));
  });

  test("VALUE-2: metadata is read once, and what was checked is what is kept", () => {
    let reads = 0;
    const fickle = Object.defineProperty({}, "x", { enumerable: true, get: () => ++reads });
    expect(given({ metadata: fickle })).toEqual({ metadata: { x: 1 } });
    expect(reads).toBe(1);
  });
});

describe("checkMetadata", () => {
  test("VALUE-3: answers a frozen copy", () => {
    const mine = { list: [1] };
    const copy = checkMetadata(mine, "metadata");
    mine.list.push(2);
    expect(copy).toEqual({ list: [1] });
    expect(Object.isFrozen(copy) && Object.isFrozen(copy.list)).toBe(true);
  });

  test("what is not JSON is refused with its path", () => {
    expect(thrown(() => checkMetadata({ at: new Date() }, "metadata")).message).toBe(
      "metadata.at: Date is not JSON.",
    );
  });

  test("D8: at most a mebibyte, counted in bytes", () => {
    const text = (bytes: number) => "x".repeat(bytes - '{"t":""}'.length);
    expect(checkMetadata({ t: text(MAX_METADATA_BYTES) }, "metadata")).toBeDefined();
    const { code, details } = thrown(() =>
      checkMetadata({ t: text(MAX_METADATA_BYTES + 1) }, "metadata"),
    );
    expect({ code, details }).toEqual({
      code: "TOO_LARGE",
      details: { path: "metadata", limit: MAX_METADATA_BYTES },
    });
  });
});

test("checkText takes well-formed text up to its limit", () => {
  expect(checkText("für 👩", "reason", 6)).toBe("für 👩");
  expect(thrown(() => checkText("für 👩", "reason", 5)).code).toBe("TOO_LARGE");
  expectInvalid("reason", () => checkText("\udc00", "reason", 5));
  expectInvalid("reason", () => checkText(undefined, "reason", 5));
});

describe("checkpointOf", () => {
  const branch = branchId(new Uint8Array(10).fill(7));
  const before = branchId(new Uint8Array(10));
  const session = "order-42" as SessionId;

  function written(mark: Mark | null, prior = 0) {
    const text = mark && markText(mark, () => "0123456789abcdef");
    const at = Date.UTC(2024, 0, 2, 3, 4, 5, 6);
    const { save, digest: end } = seal({
      branch,
      after: 8,
      at,
      prior,
      base: 0,
      prev: digest("before"),
      items: [],
      nMessages: 0,
      state: [],
      mark: text,
      salt: () => "0123456789abcdef",
    });
    return {
      checkpoint: checkpointOf(save, end, session, (seq) => (seq < 5 ? before : branch)),
      end,
    };
  }

  test("is its place, what was written, and the digest of its save", () => {
    const mark: Mark = {
      step: 3,
      kind: "recovery",
      label: "l",
      description: "d",
      status: "failed",
      reason: "r",
      messages: 2,
      bytes: 99,
      tokens: 7,
      tasks: 1,
      metadata: { a: [1] },
    };
    const { checkpoint, end } = written(mark, 4);
    expect(checkpoint).toEqual({
      id: `${branch}-9`,
      sessionId: session,
      seq: 9,
      step: 3,
      kind: "recovery",
      label: "l",
      description: "d",
      status: "failed",
      reason: "r",
      parentId: `${before}-4`,
      createdAt: "2024-01-02T03:04:05.006Z",
      messageCount: 2,
      sizeBytes: 99,
      tokenCount: 7,
      tasksCompleted: 1,
      digest: end,
      metadata: { a: [1] },
    });
  });

  test("what was not given is absent, and what is always there has its plain value", () => {
    const { checkpoint, end } = written({ step: 1, messages: 0, bytes: 0 });
    expect(Object.entries(checkpoint ?? {})).toEqual(
      Object.entries({
        id: `${branch}-9`,
        sessionId: session,
        seq: 9,
        step: 1,
        kind: "manual",
        status: "in-progress",
        createdAt: "2024-01-02T03:04:05.006Z",
        messageCount: 0,
        sizeBytes: 0,
        digest: end,
        metadata: {},
      }),
    );
  });

  test("checkpointFrom makes of the mark itself what checkpointOf makes of its text", () => {
    const mark: Mark = { step: 2, label: "l", messages: 1, bytes: 5, metadata: { a: [1] } };
    const { checkpoint, end } = written(mark, 6);
    const place = { branch, seq: 9, at: Date.UTC(2024, 0, 2, 3, 4, 5, 6), prior: 6 };
    const made = checkpointFrom(mark, place, end, session, () => branch);
    expect(JSON.stringify(made)).toBe(JSON.stringify(checkpoint));
    expect([made, made.metadata, made.metadata.a].every(Object.isFrozen)).toBe(true);
  });

  test("JOURNAL-3: its record reads back, and ends with a salt where it holds words, and only there", () => {
    const words = {
      label: fc.string(),
      description: fc.string(),
      reason: fc.string(),
      metadata: fc.dictionary(fc.string(), fc.jsonValue()),
    };
    const numbers = {
      step: fc.nat(),
      messages: fc.nat(),
      bytes: fc.nat(),
      tokens: fc.nat(),
      tasks: fc.nat(),
    };
    const marks = fc.record(
      {
        ...numbers,
        ...words,
        kind: fc.constantFrom("automatic" as const, "recovery" as const),
        status: fc.constantFrom("failed" as const),
      },
      { requiredKeys: ["step", "messages", "bytes"] },
    );
    fc.assert(
      fc.property(marks, (mark) => {
        const text = markText(mark as Mark, () => "0123456789abcdef");
        const speaks = Object.keys(words).some((word) => word in mark);
        expect(JSON.parse(text)).toEqual({
          checkpoint: JSON.parse(JSON.stringify(mark)),
          ...(speaks ? { salt: "0123456789abcdef" } : {}),
        });
        expect(text.endsWith("}}")).toBe(!speaks);
      }),
    );
  });

  test("VALUE-3: is frozen, with its metadata", () => {
    const { checkpoint } = written({ step: 1, messages: 0, bytes: 0, metadata: { a: [1] } });
    expect([checkpoint, checkpoint?.metadata, checkpoint?.metadata.a].every(Object.isFrozen)).toBe(
      true,
    );
  });

  test("there is none in a save without one", () =>
    expect(written(null).checkpoint).toBeUndefined());
});
