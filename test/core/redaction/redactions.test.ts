import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { RedactionName } from "../../../src/core/redaction/redactions.js";
import { type RedactionOptions, redactions } from "../../../src/features/redaction/redactions.js";
import { cpuMs } from "../../support/cpu.js";
import { isThorough } from "../../support/runs.js";
import { thrown } from "../values/thrown.js";

const where = { in: "message", role: "user" } as const;
const run = (text: string, o?: RedactionOptions): string => redactions(o)(text, where);
const hex = (n: number): string => "0123456789abcdef".repeat(Math.ceil(n / 16)).slice(0, n);

/** What is found, by the rule that finds it; `stays` is what is left around it. */
const FOUND: Readonly<Record<RedactionName, readonly (readonly [text: string, edited: string])[]>> =
  {
    privateKeys: [
      [
        `a\n-----BEGIN RSA PRIVATE KEY-----\nMIIE${hex(60)}\n${hex(64)}\n-----END RSA PRIVATE KEY-----\nb`,
        "a\n[private key]\nb",
      ],
      [
        `-----BEGIN OPENSSH PRIVATE KEY-----\\n${hex(64)}\\n-----END OPENSSH PRIVATE KEY-----`,
        "[private key]",
      ],
      ["-----BEGIN PRIVATE KEY-----\nMIIEcut short", "[private key]"],
      [
        "-----BEGIN PGP PRIVATE KEY BLOCK-----\nabc\n-----END PGP PRIVATE KEY BLOCK-----!",
        "[private key]!",
      ],
    ],
    tokens: [
      [`key sk-ant-api03-${hex(40)}-x_y.`, "key [token]."],
      [`sk-${hex(48)}`, "[token]"],
      [`"sk-proj-${hex(20)}_${hex(20)}-z"`, '"[token]"'],
      [`{"k":"a\\nsk-svcacct-${hex(40)}"}`, '{"k":"a\\n[token]"}'],
      ["id=AKIAIOSFODNN7EXAMPLE;", "id=[token];"],
      ["ASIAIOSFODNN7EXAMPL3", "[token]"],
      [`ghp_${hex(36)}`, "[token]"],
      [`github_pat_${hex(22)}_${hex(59)} `, "[token] "],
      ["xoxb-2345678901-2345678901234-AbCdEfGh", "[token]"],
      ["xapp-1-A0-123-abc", "[token]"],
      [
        "https://hooks.slack.com/services/T00000000/B00000000/XXXX",
        "https://hooks.slack.com/services/[token]",
      ],
      [`sk_live_${hex(24)}`, "[token]"],
      [`rk_test_${hex(24)}`, "[token]"],
      [`whsec_${hex(32)}`, "[token]"],
      [`AIzaSy${"A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q"}`, "[token]"],
      [`ya29.${hex(40)}`, "[token]"],
      [`GOCSPX-${hex(28)}`, "[token]"],
      [`t=eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjMifQ.${hex(43)} x`, "t=[token] x"],
    ],
    headers: [
      [`Authorization: Bearer ${hex(32)}`, "Authorization: Bearer [token]"],
      ["Authorization: Basic dXNlcjpwYXNz", "Authorization: Basic [token]"],
      [`Authorization: Token ${hex(40)}`, "Authorization: Token [token]"],
      [`Set-Cookie: sid=${hex(32)}; Path=/`, "Set-Cookie: sid=[token]; Path=/"],
      [`Cookie: sid=${hex(32)}; theme=dark`, "Cookie: [token]"],
    ],
    urls: [
      ["postgres://app:s3cr3t@db.internal:5432/x", "postgres://app:[password]@db.internal:5432/x"],
      ["redis://:p@ss@host", "redis://:[password]@host"],
      [`https://x:gho_${hex(36)}@github.com`, "https://x:[password]@github.com"],
      ["curl -u ann:hunter-two https://x.example", "curl -u ann:[password] https://x.example"],
    ],
    secrets: [
      ['password="p@ss w0rd!"', 'password="[secret]"'],
      ['{"password":"p@ss w0rd!"}', '{"password":"[secret]"}'],
      ["DB_PASSWORD='p@ss w0rd!'", "DB_PASSWORD='[secret]'"],
      ['PASSWORD="two words"', 'PASSWORD="[secret]"'],
      ["api_key=abc123def456", "api_key=[secret]"],
      ['{"client_secret": "zX9-zX9-zX9"}', '{"client_secret": "[secret]"}'],
      ["DB_PASSWORD: hunter22", "DB_PASSWORD: [secret]"],
      ["password: hunter-two", "password: [secret]"],
      ["passwd=correcthorse", "passwd=[secret]"],
      ['{"dbPassword":"hunter-two"}', '{"dbPassword":"[secret]"}'],
      [
        "export AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "export AWS_SECRET_ACCESS_KEY=[secret]",
      ],
      ["?token=a1b2c3d4&next=1", "?token=[secret]&next=1"],
    ],
    cards: [
      ["4111111111111111", "[card]"],
      ["my card 4111 1111 1111 1111, thanks", "my card [card], thanks"],
      ["5500-0055-5555-5559", "[card]"],
      ["378282246310005", "[card]"],
      ["order 12 4111 1111 1111 1111 5", "order 12 [card] 5"],
      ["my order, 4111111111111111", "my order, [card]"],
      ["I paid 4111111111111111", "I paid [card]"],
      ["6304000000000000", "[card]"],
    ],
    emails: [
      ["write to Bob.O'Neil+news@mail.example.co.uk.", "write to [email]."],
      ["<a@b.io>", "<[email]>"],
      ["zoë@exämple.de", "[email]"],
      ['{"to":"x\\nbob@example.com"}', '{"to":"x\\n[email]"}'],
    ],
  };

describe("the ready set", () => {
  for (const [name, cases] of Object.entries(FOUND) as [
    RedactionName,
    (typeof FOUND)[RedactionName],
  ][])
    test.each(cases)(`${name}: %s`, (text, edited) => {
      expect(run(text)).toBe(edited);
      // REDACTIONS-2, and nothing of it without its rule and those that know the same shape.
      expect(run(edited)).toBe(edited);
    });

  test.each([
    "the bearer certificates of 1987",
    "Bearer bonds are rare",
    "risk-assessment-methodology-of-2023-and-later",
    "password: correct horse",
    "token: string",
    "npm@10.2.3",
    "@types/node@20.19",
    "http://host:8080/a@b",
    "1700000000000",
    "2023-11-15 12:34:56",
    "20231115123456789",
    "4111111111111112",
    "0000 0000 0000 0000",
    "41111111111111111111111111111111",
    "eyJ is how they begin",
    "-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----",
    "AKIA is a prefix",
    "a @ b",
    "x@localhost",
    "sk-1",
    "v1.2.3-4567890123",
    "f47ac10b-58cc-4372-a567-0e02b2c3d479",
  ])("leaves alone: %s", (text) => {
    expect(run(text)).toBe(text);
  });

  test("a field that is named like a secret is one, if it holds no plain word", () => {
    const set = redactions();
    expect(set("aB3dE6gH9", { in: "state", key: "x", field: "apiKey" })).toBe("[secret]");
    expect(set("aB3dE6gH9", { in: "state", key: "x", field: "db_password" })).toBe("[secret]");
    expect(set("aB3dE6gH9", { in: "state", key: "x", field: "colour" })).toBe("aB3dE6gH9");
    expect(set("required", { in: "state", key: "x", field: "password" })).toBe("required");
    expect(
      redactions({ secrets: false })("aB3dE6gH9", { in: "state", key: "x", field: "apiKey" }),
    ).toBe("aB3dE6gH9");
  });

  test("each can be turned off, or given other words", () => {
    const text = "bob@example.com 4111111111111111";
    expect(run(text, { cards: false })).toBe("[email] 4111111111111111");
    expect(run(text, { emails: "<someone>" })).toBe("<someone> [card]");
    expect(run(text, { emails: false, cards: false })).toBe(text);
    expect(thrown(() => redactions({ emails: "me@example.com" }))).toMatchObject({
      code: "INVALID_OPTION",
    });
    expect(thrown(() => redactions({ emails: 1 as never }))).toMatchObject({
      code: "INVALID_OPTION",
    });
    expect(thrown(() => redactions({ phones: true } as never))).toMatchObject({
      code: "INVALID_OPTION",
    });
  });

  test("inputs of calls are left alone unless told otherwise", () => {
    const input = { in: "tool-input", name: "mail" } as const;
    expect(redactions()("bob@example.com", input)).toBe("bob@example.com");
    expect(redactions({ toolInputs: true })("bob@example.com", input)).toBe("[email]");
    expect(redactions().everywhere("bob@example.com")).toBe("[email]");
  });

  test("REDACTIONS-2: what it gave it leaves as it is, whatever it was given", () => {
    const samples = Object.values(FOUND).flatMap((cases) => cases.map(([text]) => text));
    const texts = fc.array(fc.oneof(fc.constantFrom(...samples), fc.string({ maxLength: 12 })), {
      maxLength: 6,
    });
    fc.assert(
      fc.property(texts, fc.constantFrom(" ", "", "\n", '"', ":"), (pieces, between) => {
        const once = run(pieces.join(between));
        expect(run(once)).toBe(once);
      }),
      { numRuns: 500 },
    );
  });

  const crafted = [
    "a",
    "@",
    "a@",
    "a.b@",
    "4",
    "4 ",
    "4-1 ",
    "eyJ",
    "eyJaaaaa.",
    "-----BEGIN ",
    "-----BEGIN RSA PRIVATE KEY-----",
    "token=",
  ].concat([
    "a_",
    "sk-",
    "://a:",
    "Bearer ",
    "Bearer aaaaaaaaaaaaaaaaaa",
    " ",
    '"',
    "token\"'",
    "\\",
    "\\n",
    "xox",
    "password:=",
    "api_key",
  ]);
  const halves = Object.values(FOUND)
    .flatMap((cases) => cases.map(([text]) => text))
    .flatMap((text) => [
      text.slice(0, Math.ceil(text.length / 2)),
      text.slice(0, -1),
      text.slice(1),
    ]);
  test.each([
    { pieces: crafted, bytes: isThorough ? 1024 * 1024 : 128 * 1024, ms: isThorough ? 2_000 : 250 },
    { pieces: halves, bytes: 32 * 1024, ms: 200 },
  ])(
    "REDACTIONS-1: $bytes bytes of what is made to be slow take no longer than $ms ms",
    { timeout: 100_000 },
    ({ pieces, bytes, ms }) => {
      const set = redactions();
      for (const piece of pieces) {
        const text = piece.repeat(Math.ceil(bytes / piece.length)).slice(0, bytes);
        expect(
          cpuMs(() => set(text, where)),
          JSON.stringify(piece),
        ).toBeLessThan(ms);
      }
    },
  );
});
