import { createContext, runInContext } from "node:vm";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { HoldfastError } from "../../../src/core/values/errors.js";
import {
  deepFreeze,
  encode,
  equal,
  freeze,
  type Json,
  MAX_DEPTH,
  MAX_VALUE_BYTES,
  put,
} from "../../../src/core/values/json.js";
import { expectCode, expectRefused, thrown } from "./thrown.js";

const jsonValue = fc.jsonValue({ maxDepth: 5, stringUnit: "grapheme" }) as fc.Arbitrary<Json>;

function isDeeplyFrozen(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return true;
  return Object.isFrozen(value) && Object.values(value).every(isDeeplyFrozen);
}

/** A value that holds `leaf` so many levels down. */
function nested(levels: number, leaf: unknown = 0): unknown {
  let value = leaf;
  for (let i = 0; i < levels; i++) value = i % 2 === 0 ? [value] : { in: value };
  return value;
}

describe("encode", () => {
  test("VALUE-1: what goes in comes out equal, with its keys in the order given", () => {
    fc.assert(
      fc.property(jsonValue, (value) => {
        const { value: copy, text, bytes } = encode(value, "state.x");
        // Comparing texts compares the order of keys too, and `__proto__` as the key it is.
        expect(text).toBe(JSON.stringify(value));
        expect(JSON.stringify(copy)).toBe(text);
        expect(equal(JSON.parse(text) as Json, copy)).toBe(true);
        expect(bytes).toBe(Buffer.byteLength(text));
      }),
      { numRuns: 500 },
    );
  });

  test("VALUE-1: undefined properties are absent, also at any depth", () => {
    expect(encode({ a: undefined, b: { c: undefined, d: 1 } }, "v").text).toBe('{"b":{"d":1}}');
  });

  test("VALUE-1: -0 is 0, in the value as in the text", () => {
    const { value, text } = encode({ at: [-0] }, "v");
    expect(text).toBe('{"at":[0]}');
    expect(Object.is((value as { at: number[] }).at[0], 0)).toBe(true);
  });

  test("VALUE-1: keys stay in the order given, not sorted", () => {
    expect(encode({ z: 1, a: 2, m: 3 }, "v").text).toBe('{"z":1,"a":2,"m":3}');
  });

  test("VALUE-2: each property is read once, so a getter cannot change its mind", () => {
    let reads = 0;
    const fickle = {
      get when() {
        reads += 1;
        return reads === 1 ? "now" : new Date();
      },
    };
    expect(encode({ list: [fickle] }, "v").text).toBe('{"list":[{"when":"now"}]}');
    expect(reads).toBe(1);
  });

  test("VALUE-2: an array that grows while it is read is refused, not cut", () => {
    const list: unknown[] = [];
    Object.defineProperty(list, 0, {
      enumerable: true,
      get() {
        if (list.length < 3) list.push("late");
        return "first";
      },
    });
    expectRefused("v", "an array with named properties is not JSON", () => encode(list, "v"));
  });

  test("VALUE-3: the copy is frozen all the way down", () => {
    fc.assert(
      fc.property(jsonValue, (value) => {
        expect(isDeeplyFrozen(encode(value, "v").value)).toBe(true);
        expect(isDeeplyFrozen(freeze(value, "v"))).toBe(true);
      }),
    );
  });

  test("VALUE-3: nothing the caller does later reaches the copy, and the caller's own value stays free", () => {
    const mine = { plan: [{ done: false }], tags: ["a"] };
    const { value } = encode(mine, "v");
    (mine.plan[0] as { done: boolean }).done = true;
    mine.tags.push("b");
    expect(value).toEqual({ plan: [{ done: false }], tags: ["a"] });
  });

  test("VALUE-4: `__proto__` and its like are ordinary keys", () => {
    const text = '{"__proto__":{"admin":true},"constructor":1,"hasOwnProperty":2,"toString":3}';
    const { value, text: again } = encode(JSON.parse(text), "v");
    expect(again).toBe(text);
    expect(Object.keys(value as object)).toEqual([
      "__proto__",
      "constructor",
      "hasOwnProperty",
      "toString",
    ]);
    expect((value as { admin?: boolean }).admin).toBeUndefined();
    expect(({} as { admin?: boolean }).admin).toBeUndefined();
  });

  test("plain means plain: no prototype, and the plain objects of another realm", () => {
    expect(encode(Object.assign(Object.create(null), { a: 1 }), "v").text).toBe('{"a":1}');
    expect(encode(runInContext("({ a: [{ b: null }] })", createContext()), "v").text).toBe(
      '{"a":[{"b":null}]}',
    );
  });
});

describe("what is refused", () => {
  class Plan {
    readonly step = 1;
  }
  const hole: unknown[] = [1];
  hole[2] = 3;
  const hostile: readonly (readonly [what: string, value: unknown, why: string])[] = [
    ["a Date", new Date(0), "Date is not JSON"],
    ["a Map", new Map(), "Map is not JSON"],
    ["a Set", new Set(), "Set is not JSON"],
    ["a RegExp", /x/, "RegExp is not JSON"],
    ["a Promise", Promise.resolve(), "Promise is not JSON"],
    ["an Error", new Error("x"), "Error is not JSON"],
    ["a class instance", new Plan(), "Plan is not JSON"],
    ["bytes", new Uint8Array(1), "Uint8Array is not JSON"],
    ["a Buffer", Buffer.from("x"), "Buffer is not JSON"],
    ["a boxed string", new String("x"), "String is not JSON"],
    ["a boxed number", new Number(1), "Number is not JSON"],
    ["an heir of a plain object", Object.create({ a: 1 }), "Object is not JSON"],
    [
      "an heir of an object without a prototype",
      Object.create(Object.create(null)),
      "an object is not JSON",
    ],
    ["a function", () => 0, "a function is not JSON"],
    ["a symbol", Symbol("x"), "a symbol is not JSON"],
    ["a bigint", 1n, "a bigint is not JSON; store it as a string"],
    ["NaN", Number.NaN, "NaN is not JSON"],
    ["Infinity", Number.POSITIVE_INFINITY, "Infinity is not JSON"],
    ["-Infinity", Number.NEGATIVE_INFINITY, "-Infinity is not JSON"],
    ["half a character", "a\ud83d", "the text holds half a character (a lone surrogate)"],
    ["a symbol as a key", { [Symbol("x")]: 1 }, "a symbol as a key is not JSON"],
    [
      "an array with a name",
      Object.assign([1], { name: "x" }),
      "an array with named properties is not JSON",
    ],
  ];

  /** Written apart from the source on purpose: a path as a person would type it. */
  function spelled(root: string, keys: readonly (string | number)[]): string {
    return keys.reduce<string>((path, key) => {
      if (typeof key === "number") return `${path}[${key}]`;
      return /^[a-z_]+$/.test(key) ? `${path}.${key}` : `${path}[${JSON.stringify(key)}]`;
    }, root);
  }

  function at(keys: readonly (string | number)[], leaf: unknown): unknown {
    return keys.reduceRight<unknown>((inner, key) => {
      if (typeof key === "number")
        return [...Array.from({ length: key }, (_, i) => ({ before: i })), inner, "after"];
      return { before: ["fine"], ...Object.fromEntries([[key, inner]]), after: 1 };
    }, leaf);
  }

  const keys = fc.array(
    fc.oneof(
      fc.integer({ min: 0, max: 4 }),
      fc.constantFrom(
        "plan",
        "when",
        "in",
        "my key",
        "1",
        "a.b",
        'say "x"',
        "",
        "ключ",
        "__proto__",
      ),
    ),
    { maxLength: 12 },
  );

  test("the house example: state.plan[3].when: Date is not JSON.", () => {
    expectRefused("state.plan[3].when", "Date is not JSON", () =>
      encode({ plan: [0, 1, 2, { when: new Date() }] }, "state"),
    );
  });

  test.each(hostile)("%s is refused with its exact path, wherever it stands", (_, value, why) => {
    fc.assert(
      fc.property(keys, (where) => {
        expectRefused(spelled("state", where), why, () => encode(at(where, value), "state"));
      }),
      { numRuns: 40 },
    );
  });

  test("undefined is absent as a property, and refused as a value or in an array", () => {
    expectRefused("v", "undefined is not JSON", () => encode(undefined, "v"));
    expectRefused("v[1]", "undefined is not JSON", () => encode([1, undefined], "v"));
    expectRefused("v.list[1]", "undefined is not JSON", () => encode({ list: hole }, "v"));
  });

  test("half a character in a key is refused, and spelled out in the path", () => {
    expectRefused('v["a\\ud83d"]', "the text holds half a character (a lone surrogate)", () =>
      encode({ "a\ud83d": 1 }, "v"),
    );
  });

  test("a key that would redraw the terminal is spelled out in the path", () => {
    expectRefused('v["\\u001b[2J\\u202e"]', "NaN is not JSON", () =>
      encode({ "\u001b[2J\u202e": Number.NaN }, "v"),
    );
  });

  test("a getter that throws is refused with its path, and its error is the cause", () => {
    const cause = new Error("no");
    const value = {
      get bad(): unknown {
        throw cause;
      },
    };
    const error = thrown(() => encode({ list: [value] }, "v"));
    expect(error.code).toBe("INVALID_VALUE");
    expect(error.details.path).toBe("v.list[0].bad");
    expect(error.message).toBe("v.list[0].bad: reading it threw an error.");
    expect(error.cause).toBe(cause);
  });

  test("a proxy whose keys cannot be read is refused with its path", () => {
    const refusing = new Proxy(
      {},
      {
        ownKeys() {
          throw new Error("no");
        },
      },
    );
    const error = thrown(() => encode({ list: [refusing] }, "v"));
    expect({ code: error.code, path: error.details.path }).toEqual({
      code: "INVALID_VALUE",
      path: "v.list[0]",
    });
  });

  test("a proxy that was revoked is refused with its path", () => {
    const { proxy, revoke } = Proxy.revocable({}, {});
    revoke();
    const error = thrown(() => encode({ a: proxy }, "v"));
    expect({ code: error.code, path: error.details.path }).toEqual({
      code: "INVALID_VALUE",
      path: "v.a",
    });
  });

  test("a symbol as a key of an array is refused, not silently dropped", () => {
    expectCode("INVALID_VALUE", () => encode(Object.assign([1], { [Symbol("x")]: 2 }), "v"));
  });

  test.each(["ownKeys", "getPrototypeOf", "getOwnPropertyDescriptor", "get"] as const)(
    "a proxy that throws in %s is refused",
    (trap) => {
      const cause = new HoldfastError("CORRUPT", "from a trap");
      const proxy = (target: object) => {
        const fail = () => {
          throw cause;
        };
        return new Proxy(target, { [trap]: fail });
      };
      // What an array inherits from is not asked.
      for (const target of trap === "getPrototypeOf" ? [{ x: 1 }] : [{ x: 1 }, [1]]) {
        // An error of ours that a trap throws is no answer of ours.
        const error = thrown(() => encode({ a: [0, proxy(target)] }, "v"));
        expect(error.code).toBe("INVALID_VALUE");
        expect(error.details.path).toMatch(/^v\.a\[1\]/);
        expect(error.cause).toBe(cause);
      }
    },
  );

  test("a proxy that lies about its length is refused", () => {
    for (const length of ["3", Number.NaN, 1.5, -1]) {
      const liar = new Proxy([1, 2], {
        get: (list, key) => (key === "length" ? length : Reflect.get(list, key)),
      });
      expectCode("INVALID_VALUE", () => encode(liar, "v"));
    }
  });

  test("toJSON is not called: it is a function like any other", () => {
    expectRefused("v.toJSON", "a function is not JSON", () =>
      encode({ toJSON: () => "changed" }, "v"),
    );
  });
});

describe("D8: bounds", () => {
  test(`${MAX_DEPTH} levels pass and one more is refused`, () => {
    const deepest = nested(MAX_DEPTH);
    expect(encode(deepest, "v").text).toBe(JSON.stringify(deepest));
    const { code, message } = thrown(() => encode(nested(MAX_DEPTH + 1), "v"));
    expect(code).toBe("INVALID_VALUE");
    expect(message).toContain(`nested deeper than ${MAX_DEPTH} levels, or in a circle`);
  });

  test("a circle is refused, whichever way it goes round", () => {
    const ring: Record<string, unknown> = {};
    ring.self = { list: [ring] };
    expectCode("INVALID_VALUE", () => encode(ring, "v"));
  });

  test("the path of something hundreds of levels down shows its first twelve and last eight steps", () => {
    const { details } = thrown(() => encode(nested(100, new Date()), "v"));
    expect(details.path).toBe(`v${".in[0]".repeat(6)}…${".in[0]".repeat(4)}`);
  });

  test("a small part referred to so often that the whole is big is refused while it is walked", () => {
    const part = "x".repeat(1024 * 1024);
    const most = MAX_VALUE_BYTES / part.length;
    const { code, details } = thrown(() => freeze(Array(most + 1).fill(part), "v"));
    expect({ code, details }).toEqual({
      code: "TOO_LARGE",
      details: { path: "v", limit: MAX_VALUE_BYTES },
    });
  });

  test("shared references are copied once, and count each time: thirty objects with a billion paths are refused at once", () => {
    let reads = 0;
    let value: unknown = Object.defineProperty({}, "leaf", {
      enumerable: true,
      get: () => ++reads,
    });
    for (let i = 0; i < 30; i++) value = i % 2 === 0 ? [value, value] : { a: value, b: value };
    expectCode("TOO_LARGE", () => encode(value, "v"));
    expect(reads).toBeLessThan(20_000);
  });

  test("a value with shared parts comes out equal, also where it is big", () => {
    let value: unknown = { leaf: "x" };
    for (let i = 0; i < 16; i++) value = [value, { in: value }];
    expect(encode(value, "v").text).toBe(JSON.stringify(value));
  });

  test("a part that is shared is refused where it stands too deep, though it was fine higher up", () => {
    const part = { big: "x".repeat(100_000), in: nested(MAX_DEPTH - 10) };
    const at = (levels: number) => [part, nested(levels, part)];
    expect(encode(at(8), "v").text).toBe(JSON.stringify(at(8)));
    expectCode("INVALID_VALUE", () => encode(at(9), "v"));
  });

  test("a text of exactly the limit passes, quotes and all", () => {
    expect(encode("x".repeat(MAX_VALUE_BYTES - 2), "v").bytes).toBe(MAX_VALUE_BYTES);
    expectCode("TOO_LARGE", () => encode("x".repeat(MAX_VALUE_BYTES - 1), "v"));
  });

  test("the limit is on bytes: characters of three bytes reach it with a third as many", () => {
    const { code, message } = thrown(() => encode("東".repeat(MAX_VALUE_BYTES / 3 + 1), "v"));
    expect({ code, message }).toEqual({ code: "TOO_LARGE", message: "v: larger than 64 MiB." });
  });

  test("an array of a billion holes is refused by its length, not walked", () => {
    expectCode("TOO_LARGE", () => encode(new Array(1e9), "v"));
  });
});

describe("put", () => {
  test("VALUE-4: `__proto__` becomes a key of its own, and can be written again", () => {
    const into: Record<string, number> = {};
    put(into, "a", 1);
    put(into, "__proto__", 2);
    put(into, "__proto__", 3);
    expect(JSON.stringify(into)).toBe('{"a":1,"__proto__":3}');
    expect(Object.getPrototypeOf(into)).toBe(Object.prototype);
  });
});

test("deepFreeze freezes what JSON.parse made, all the way down, and gives the same object", () => {
  fc.assert(
    fc.property(jsonValue, (value) => {
      const parsed: unknown = JSON.parse(JSON.stringify(value));
      expect(deepFreeze(parsed)).toBe(parsed);
      expect(isDeeplyFrozen(parsed)).toBe(true);
    }),
  );
});

describe("equal", () => {
  /** The same value with the keys of every object turned round. */
  function turned(value: Json): Json {
    if (typeof value !== "object" || value === null) return value;
    if (Array.isArray(value)) return value.map(turned);
    const copy: Record<string, Json> = {};
    for (const [key, item] of Object.entries(value).reverse()) put(copy, key, turned(item));
    return copy;
  }

  /** One text for all values that are equal. */
  const canonical = (value: Json): string => {
    if (typeof value !== "object" || value === null) return JSON.stringify(value);
    if (Array.isArray(value)) return `[${value.map(canonical).join()}]`;
    return `{${Object.entries(value)
      .map(([key, item]) => `${JSON.stringify(key)}:${canonical(item)}`)
      .toSorted()
      .join()}}`;
  };

  test("the order of keys does not matter", () => {
    fc.assert(
      fc.property(jsonValue, (value) => {
        expect(equal(value, turned(value))).toBe(true);
      }),
    );
  });

  test("agrees with comparing canonical texts, on values that are nearly the same", () => {
    const few = fc
      .jsonValue({ maxDepth: 2 })
      .chain((value) => fc.constantFrom(value, [value], { a: value }));
    const small = fc.letrec((tie) => ({
      value: fc.oneof(
        { depthSize: "small" },
        fc.constantFrom(null, true, 0, 1, "", "a"),
        fc.array(tie("value"), { maxLength: 2 }),
        fc.dictionary(fc.constantFrom("a", "b", "__proto__"), tie("value"), { maxKeys: 2 }),
      ),
    })).value;
    const values = fc.oneof(
      { weight: 4, arbitrary: small },
      { weight: 1, arbitrary: few },
    ) as fc.Arbitrary<Json>;
    fc.assert(
      fc.property(values, values, (a, b) => {
        expect(equal(a, b)).toBe(canonical(a) === canonical(b));
      }),
      { numRuns: 2_000 },
    );
  });

  test.each<[Json | undefined, Json | undefined]>([
    [[], {}],
    [{}, []],
    [null, {}],
    [undefined, null],
    [{ a: 1 }, { b: 1 }],
    [{ a: null }, {}],
    [[1], [1, 2]],
    [
      [1, 2],
      [2, 1],
    ],
    [JSON.parse('{"__proto__":1}') as Json, {}],
    [{ toString: 1 }, { valueOf: 1 }],
    ["1", 1],
  ])("%j is not %j", (a, b) => {
    expect(equal(a, b)).toBe(false);
    expect(equal(b, a)).toBe(false);
  });
});

describe("a value past the limit is refused before all of it is read", () => {
  /** An array of one item over and over, which counts how often it was read. */
  function counting(length: number, item: unknown) {
    const counter = { reads: 0 };
    const value = new Proxy([] as unknown[], {
      get(target, key) {
        if (key === "length") return length;
        if (typeof key === "string" && /^\d+$/.test(key)) {
          counter.reads += 1;
          return item;
        }
        return Reflect.get(target, key) as unknown;
      },
    });
    return { value, counter };
  }

  const LIMIT = 1024 * 1024;
  const rows: readonly (readonly [what: string, item: unknown])[] = [
    ["long numbers", 0.1234567890123456],
    ["negative numbers", -1e-300],
    ["true", true],
    ["null", null],
    ["texts with escapes", "\0\0\0\0\0\0\0\0"],
    ["texts with quotes", '""""""""'],
    ["texts of three bytes a character", "東東東東"],
    ["objects with long keys", { "\u0001\u0001\u0001\u0001": 1.5 }],
    ["lists", [0.1234567890123456, null, "\n"]],
  ];
  test.each(rows)("%s", (_, item) => {
    const { value, counter } = counting(500_000, item);
    expectCode("TOO_LARGE", () => encode(value, "v", LIMIT));
    const most = LIMIT / (JSON.stringify(item).length + 1);
    // Up to the size from which bytes are counted exactly, the count is a lower bound.
    expect(counter.reads).toBeLessThan(most + 64 * 1024);
  });

  test("a length that cannot fit is refused without reading", () => {
    const { value, counter } = counting(LIMIT / 2, 1);
    expectCode("TOO_LARGE", () => encode(value, "v", LIMIT));
    expect(counter.reads).toBe(0);
  });

  test("a text counts with its escapes", () => {
    expectCode("TOO_LARGE", () => encode(["\0".repeat(LIMIT / 2)], "v", LIMIT));
    expect(encode(["\0".repeat(LIMIT / 6 - 10)], "v", LIMIT).bytes).toBeLessThanOrEqual(LIMIT);
  });

  test("a part that is shared counts as often as it stands there", () => {
    const part = Array.from({ length: 30_000 }, () => 0.1234567890123456);
    const shared = Array.from({ length: 200 }, () => part);
    expectCode("TOO_LARGE", () => encode(shared, "v", 100 * 1024 * 1024));
  });

  test("a value of exactly the limit is accepted, of any type", () => {
    const values: readonly unknown[] = [
      ...rows.map(([, item]) => Array.from({ length: 30_000 }, () => item)),
      { a: [[], {}, [[]]], "é\n": Array.from({ length: 60_000 }, (_, i) => i - 30_000) },
      ["🦑".repeat(100_000), `x${"🦑".repeat(100_000)}`],
      '🦑\n\t\u0000\u001f\u007f"\\é東'.repeat(20_000),
    ];
    for (const value of values) {
      const bytes = Buffer.byteLength(JSON.stringify(value));
      expect(encode(value, "v", bytes).bytes).toBe(bytes);
      expectCode("TOO_LARGE", () => encode(value, "v", bytes - 1));
    }
  });
});
