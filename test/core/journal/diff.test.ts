import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Checkpoint } from "../../../src/core/journal/checkpoint.js";
import { content, diff, type Side } from "../../../src/core/journal/diff.js";
import type { Message, MessageInput } from "../../../src/core/messages/message.js";
import {
  type BranchId,
  type CheckpointId,
  placeId,
  type SessionId,
} from "../../../src/core/values/ids.js";
import { equal, type Json, type JsonObject, put } from "../../../src/core/values/json.js";

const line = "0123456789abcdef" as BranchId;

function checkpoint(seq: number, status: Checkpoint["status"] = "in-progress"): Checkpoint {
  return {
    id: placeId(line, seq) as CheckpointId,
    sessionId: "s" as SessionId,
    seq,
    step: seq,
    kind: "manual",
    status,
    createdAt: "2024-01-01T00:00:00.000Z",
    messageCount: 0,
    sizeBytes: 0,
    digest: "",
    metadata: {},
  };
}

/** Messages as the journal hands them out: each with an id, a time and a number of its own. */
let made = 0;
const said = (text: string, rest: Partial<MessageInput> = {}): Message => {
  made += 1;
  return {
    role: "user",
    content: text,
    ...rest,
    id: `${line}-${made}`,
    createdAt: new Date(made).toISOString(),
    seq: made,
  };
};

const side = (
  messages: readonly Message[],
  state: JsonObject = {},
  status?: Checkpoint["status"],
): Side => ({
  checkpoint: checkpoint(made + 1, status),
  messages,
  state,
});

const texts = (messages: readonly Message[]) => messages.map((message) => message.content);

describe("messages", () => {
  test("what both have at the beginning and the end is counted; what stands between is shown", () => {
    const [a, b, c, d, e] = ["a", "b", "c", "d", "e"].map((text) => said(text)) as [
      Message,
      Message,
      Message,
      Message,
      Message,
    ];
    const { messages, equal: same, text } = diff(side([a, b, c, e]), side([a, d, e]));
    expect(messages).toEqual({ sameAtStart: 1, sameAtEnd: 1, removed: [b, c], added: [d] });
    expect(same).toBe(false);
    expect(text).toBe("- user: b\n- user: c\n+ user: d");
  });

  test("for any two transcripts: start, change and end put each side together again, and the ends are as long as they can be", () => {
    const transcript = fc.array(fc.constantFrom("a", "b"), { maxLength: 8 });
    fc.assert(
      fc.property(transcript, transcript, (from, to) => {
        const before = from.map((text) => said(text));
        const after = to.map((text) => said(text));
        const {
          sameAtStart: start,
          sameAtEnd: end,
          removed,
          added,
        } = diff(side(before), side(after)).messages;
        expect(removed).toEqual(before.slice(start, before.length - end));
        expect(added).toEqual(after.slice(start, after.length - end));
        expect(from.slice(0, start)).toEqual(to.slice(0, start));
        expect(from.slice(from.length - end)).toEqual(to.slice(to.length - end));
        expect(
          removed[0] === undefined ||
            added[0] === undefined ||
            removed[0].content !== added[0].content,
        ).toBe(true);
        expect(
          removed.at(-1) === undefined ||
            added.at(-1) === undefined ||
            removed.at(-1)?.content !== added.at(-1)?.content,
        ).toBe(true);
      }),
    );
  });

  test("a fork that repeats a message does not differ by it: id, time and number are the journal's", () => {
    expect(diff(side([said("a")]), side([said("a")])).equal).toBe(true);
  });

  test("anything the caller gave makes a difference", () => {
    for (const rest of [
      { role: "assistant" as const },
      { name: "x" },
      { metadata: { a: 1 } },
      { reply: { finish: "stop" as const } },
    ]) {
      const { messages } = diff(side([said("a")]), side([said("a", rest)]));
      expect([messages.removed.length, messages.added.length]).toEqual([1, 1]);
    }
  });

  test("a message that stands twice on one side is counted once: the ends never overlap", () => {
    const { messages } = diff(side([said("a")]), side([said("a"), said("a")]));
    expect([
      messages.sameAtStart,
      messages.sameAtEnd,
      texts(messages.added),
      texts(messages.removed),
    ]).toEqual([1, 0, ["a"], []]);
  });

  test("words name the parts that are not text", () => {
    const parts = said("", {
      content: [
        { type: "text", text: "look" },
        { type: "tool-call", callId: "c", name: "n", input: null },
      ],
    });
    const none = said("", { content: [{ type: "file", mediaType: "a/b", data: { url: "u" } }] });
    expect(diff(side([]), side([parts, none])).text).toBe(
      "+ user: look [tool-call]\n+ user: [file]",
    );
  });

  test("D8: words are one row each and at most 120 characters of a text", () => {
    const { text } = diff(side([]), side([said(`one\ntwo\r\n${"x".repeat(100_000)}`)]));
    expect(text).toBe(`+ user: one two ${"x".repeat(111)}…`);
  });

  test("words stay well-formed where a cut falls inside a pair", () => {
    expect(
      diff(side([]), side([said("x".repeat(118) + "👩".repeat(10))])).text.isWellFormed(),
    ).toBe(true);
    expect(diff(side([]), side([said(`${" ".repeat(399)}👩`)])).text.isWellFormed()).toBe(true);
  });
});

describe("state", () => {
  const keys = fc.constantFrom("a", "b", "c", "__proto__", "constructor", "toString");
  const states = fc
    .array(
      fc.tuple(
        keys,
        fc.constantFrom<Json>(null, 0, 1, "x", [1], { k: 1, l: 2 }, { l: 2, k: 1 }, {}),
      ),
      { maxLength: 6 },
    )
    .map((entries) => {
      const state: Record<string, Json> = {};
      for (const [key, value] of entries) put(state, key, value);
      return state as JsonObject;
    });

  test("every key is added, removed, changed, or the same; applied to `from` it gives `to`", () => {
    fc.assert(
      fc.property(states, states, (from, to) => {
        const answer = diff(side([], from), side([], to));
        const { added, removed, changed } = answer.state;
        const rebuilt = new Map(Object.entries(from));
        for (const [key, value] of Object.entries(removed)) {
          expect(rebuilt.get(key)).toBe(value);
          rebuilt.delete(key);
        }
        for (const [key, pair] of Object.entries(changed)) {
          expect(rebuilt.get(key)).toBe(pair.from);
          expect(equal(pair.from, pair.to)).toBe(false);
          rebuilt.set(key, pair.to);
        }
        for (const [key, value] of Object.entries(added)) {
          expect(rebuilt.has(key)).toBe(false);
          rebuilt.set(key, value);
        }
        expect(rebuilt.size).toBe(Object.keys(to).length);
        for (const [key, value] of Object.entries(to))
          expect(equal(rebuilt.get(key), value)).toBe(true);
        const differences =
          Object.keys(added).length + Object.keys(removed).length + Object.keys(changed).length;
        expect(answer.equal).toBe(differences === 0);
        expect(answer.text.split("\n")).toHaveLength(Math.max(1, differences));
      }),
      { numRuns: 500 },
    );
  });

  test("VALUE-4: `__proto__` is a key like any other, in data and in words", () => {
    const having = JSON.parse('{"__proto__":{"admin":true}}') as JsonObject;
    const gone = diff(side([], having), side([], {}));
    expect(JSON.stringify(gone.state.removed)).toBe('{"__proto__":{"admin":true}}');
    expect(gone.text).toBe('- state.__proto__: {"admin":true}');
    const changed = diff(side([], having), side([], JSON.parse('{"__proto__":1}') as JsonObject));
    expect(JSON.stringify(changed.state.changed)).toBe(
      '{"__proto__":{"from":{"admin":true},"to":1}}',
    );
    expect(changed.text).toBe('~ state.__proto__: {"admin":true} → 1');
    expect(diff(side([], having), side([], { ...having })).equal).toBe(true);
  });

  test("the order of keys inside a value is no difference", () => {
    expect(diff(side([], { a: { x: 1, y: 2 } }), side([], { a: { y: 2, x: 1 } })).equal).toBe(true);
  });

  test("in words: removed, added, changed", () => {
    const { text } = diff(side([], { old: [1], n: 1 }), side([], { n: 2, fresh: "x" }));
    expect(text).toBe('- state.old: [1]\n+ state.fresh: "x"\n~ state.n: 1 → 2');
  });
});

describe("status and the whole", () => {
  test("a status is a difference", () => {
    const { status, text, equal: same } = diff(side([]), side([], {}, "completed"));
    expect(status).toEqual({ from: "in-progress", to: "completed" });
    expect(text).toBe("status: in-progress → completed");
    expect(same).toBe(false);
  });

  test("nothing differs between a place and itself", () => {
    const here = side([said("a")], { a: 1 }, "waiting");
    const { equal: same, text, messages, state, from, to, ...rest } = diff(here, here);
    expect({ same, text, rest }).toEqual({ same: true, text: "no difference", rest: {} });
    expect(messages).toEqual({ sameAtStart: 1, sameAtEnd: 0, removed: [], added: [] });
    expect(state).toEqual({ added: {}, removed: {}, changed: {} });
    expect([from, to]).toEqual([here.checkpoint, here.checkpoint]);
  });

  test("messages, then state, then status", () => {
    const { text } = diff(side([said("a")], { k: 1 }), side([said("b")], { k: 2 }, "failed"));
    expect(text).toBe("- user: a\n+ user: b\n~ state.k: 1 → 2\nstatus: in-progress → failed");
  });
});

test("content is what the caller gave, without what the journal assigned", () => {
  expect(content(said("a", { name: "x" }))).toEqual({ role: "user", content: "a", name: "x" });
});
