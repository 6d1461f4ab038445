/**
 * What `redactions()` finds in a corpus of secrets, and what it takes for one in texts that
 * hold none. The corpus was written from the formats that vendors document, before the rules;
 * `corpus/` says which.
 */
import { describe, expect, test } from "vitest";
import { editJson } from "../../src/core/redaction/redact-text.js";
import { redactions } from "../../src/index.js";
import { cpuMs, LINEAR, timesSlower } from "../support/cpu.js";
import { eachNth, isThorough } from "../support/runs.js";
import { negatives } from "./corpus/negatives.js";
import { type Positive, positives } from "./corpus/positives.js";

/** The second draws other secrets of the same kinds. */
const SEEDS = [13, 1_013];

const set = redactions();

/**
 * Six characters in a row of a secret that are still there, and do not stand around it as well;
 * undefined if none are.
 */
function leak({ text, secret, field }: Positive, redact = set): string | undefined {
  const edited = redact.everywhere(text, field);
  for (const form of [secret, JSON.stringify(secret).slice(1, -1)]) {
    const around = text.replaceAll(form, "\0");
    for (let i = 0; i + 6 <= form.length; i++) {
      const six = form.slice(i, i + 6);
      if (edited.includes(six) && !around.includes(six)) return `${six} of ${text}`;
    }
  }
  return undefined;
}

describe.each(SEEDS)("the corpus of seed %i", (seed) => {
  test("is large enough, and every secret is in its text", () => {
    const all = positives(seed);
    expect(all.length).toBeGreaterThanOrEqual(300);
    expect(new Set(all.map(({ kind }) => kind)).size).toBeGreaterThanOrEqual(60);
    expect(negatives(seed).length).toBeGreaterThanOrEqual(500);
    for (const { text, secret } of all)
      expect(
        text.includes(secret) || text.includes(JSON.stringify(secret).slice(1, -1)),
        `${secret} in ${text}`,
      ).toBe(true);
  });

  test("at least 95 % of the secrets go, with no tail", () => {
    const all = positives(seed);
    const left = all.map((positive) => leak(positive)).filter((found) => found !== undefined);
    expect(1 - left.length / all.length, left.join("\n")).toBeGreaterThanOrEqual(0.95);
  });

  test("every kind is found somewhere, and most contexts", () => {
    const all = positives(seed);
    for (const by of ["kind", "context"] as const)
      for (const name of new Set(all.map((positive) => positive[by]))) {
        const some = all.filter((positive) => positive[by] === name);
        const found = some.filter((positive) => leak(positive) === undefined).length;
        expect(found / some.length, `${by} ${name}`).toBeGreaterThanOrEqual(0.7);
      }
  });

  test("less than 2 % of the texts without a secret are changed", () => {
    const all = negatives(seed);
    const changed = all.filter((text) => set.everywhere(text) !== text);
    expect(changed.length / all.length, changed.join("\n")).toBeLessThan(0.02);
  });

  test("a second pass changes nothing, also where secrets stand side by side", () => {
    const texts = [...positives(seed).map(({ text }) => text), ...negatives(seed)];
    const pairs = texts.map(
      (text, i) => `${text}${[" ", "\n", "", ",", "&"][i % 5]}${texts[(i * 7 + 3) % texts.length]}`,
    );
    for (const text of [...texts, ...pairs]) {
      const once = set.everywhere(text);
      expect(set.everywhere(once)).toBe(once);
    }
  });

  test("the control: without the rules the same measure finds that everything leaks", () => {
    const none = { everywhere: (text: string) => text } as typeof set;
    expect(positives(seed).every((positive) => leak(positive, none) !== undefined)).toBe(true);
    const all = { everywhere: () => "" } as unknown as typeof set;
    expect(positives(seed).some((positive) => leak(positive, all) !== undefined)).toBe(false);
  });
});

test("of a secret with signs nothing stays, and what follows it does", () => {
  expect(set.everywhere("password=aB3&3xyzzy9 next")).toBe("password=[secret] next");
  expect(set.everywhere("?token=a1b2c3d4&next=1")).toBe("?token=[secret]&next=1");
  expect(set.everywhere("Password=p;w0rd!!;Server=db")).toBe("Password=[secret];Server=db");
  expect(set.everywhere('{"dbPassword":"pa\\"ss12,34","n":1}')).toBe(
    '{"dbPassword":"[secret]","n":1}',
  );
});

/** Each begins something again and again that never ends, or ends too late. */
const SLOW = [
  "a",
  "4 ",
  "a.b@",
  "eyJ",
  "://",
  "://a:",
  "token=",
  "password=a,b",
  'password:\\"',
  'password="\\\\',
  "password: ",
  "&sig=",
].concat(
  [
    "password=my",
    "password=xxxxxxx",
    "authorization:",
    "authorization: a",
    "cookie: a=",
    "set-cookie: a=cookie: a=",
    " --token",
    " -u a:b",
    "gl",
    "SK",
  ],
  [
    "-----BEGIN RSA PRIVATE KEY-----",
    "LS0tLS1CRUdJTi",
    "<password>a",
    "mysql ",
    "password is a1",
    "login a password ",
    "sk-",
    "M",
    "0123456789abcdef",
  ],
  // a word that goes on, with settings in it.
  [
    "password=aB3xyz1aaaaaaaaaaaa:b,",
    "password=aB3xyz1aaaaaaaaaaaa=b;c=",
    "token=aB3xyz1aaaaaaaaaaaaa1:b&c=",
  ],
  // the rules that a reviewer's misses asked for.
  [
    "Private-Lines: 1\nabc ",
    "password for a is ",
    "user a and password ",
    "mnemonic abc abc ",
    "WIFI:T:a;",
    "sqlcmd ",
  ],
  ["password:\n ", "://abcdefghij1", "$1$a$", "1/1234567890/", "api_key: 'ab 12 ", "secret_"],
);
const KIB = 1_024;
const LONG = (isThorough ? 64 : 32) * KIB;
const repeated = (piece: string, length: number): string =>
  piece.repeat(Math.ceil(length / piece.length)).slice(0, length);
const edited = (text: string) => () => set.everywhere(text);

describe("time is linear", () => {
  test.each(eachNth(3, SLOW))("of %j again and again", (piece) => {
    const [half, whole] = [repeated(piece, LONG), repeated(piece, 2 * LONG)];
    expect(timesSlower(edited(whole), edited(half), 15)).toBeLessThan(LINEAR);
  });

  if (isThorough)
    test.each(["password=aaaaaaaa&", "password=a,b", "://", "4 "])(
      "of 1 MiB and 2 MiB of %j",
      (piece) => {
        const [one, two] = [repeated(piece, KIB * KIB), repeated(piece, 2 * KIB * KIB)];
        expect(cpuMs(edited(one))).toBeLessThan(2_000);
        expect(timesSlower(edited(two), edited(one), 100)).toBeLessThan(LINEAR);
      },
    );

  test("of signs that end no value", () => {
    const made = (length: number) => `password=aB3xyz1aaaaaaaaaaaa==b${",".repeat(length)}b`;
    expect(timesSlower(edited(made(2 * LONG)), edited(made(LONG)), 15)).toBeLessThan(LINEAR);
  });

  test("of keys that come to be the same", () => {
    const edit = { text: (text: string) => text.replace(/^user\d+@.*/, "[email]") };
    const keys = (count: number) =>
      Object.fromEntries(Array.from({ length: count }, (_, i) => [`user${i}@example.org`, i]));
    const [half, whole] = [keys(8_000), keys(16_000)];
    const editAll = (value: typeof half) => () => editJson(value, edit, { in: "state", key: "m" });
    expect(timesSlower(editAll(whole), editAll(half), 30)).toBeLessThan(LINEAR);
    const few = editJson({ "user1@b": 1, "[email] 2": 2, "user2@b": 3, "user3@b": 4 }, edit, {
      in: "state",
      key: "m",
    });
    expect(few).toEqual({ "[email]": 1, "[email] 2": 2, "[email] 3": 3, "[email] 4": 4 });
  });

  test("the control: the same measure tells a rule that is quadratic", () => {
    const quadratic = (length: number) => () => /x*y/.test("x".repeat(length));
    // 10 KiB take some 35 ms, so that a processor seven times as fast still measures them.
    expect(timesSlower(quadratic(20 * KIB), quadratic(10 * KIB), 5)).toBeGreaterThan(LINEAR);
  });
});
