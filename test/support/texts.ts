/** Texts in many scripts, made of few words, so that searches find something. */
import fc from "fast-check";

const WORDS = [
  "kelp",
  "Kelp",
  "rock",
  "refund",
  "refunds",
  "order",
  "42",
  "café",
  "cafe\u0301",
  "CAFE",
  "Straße",
  "日本語",
  "日本",
  "東京都",
  "テスト",
  "ภาษาไทย",
  "한국어",
  "हिन्दी",
  "Привет",
  "привет",
  "שָׁלוֹם",
  "مُحَمَّد",
  "Οδός",
  "c++",
  "a-b",
  "ﬁne",
  "½",
  "👩‍👩‍👧",
  "❤️",
  "NEAR(",
  "AND",
  "body:x",
  "x') OR 1=1 --",
] as const;

export const someScripts = fc.constantFrom(...WORDS);

const between = fc.constantFrom(" ", " ", " ", "\n", ", ", "", "—");

export const someText = fc
  .array(
    fc.tuple(
      fc.oneof(
        { weight: 9, arbitrary: someScripts },
        { weight: 1, arbitrary: fc.string({ unit: "grapheme", maxLength: 8 }) },
      ),
      between,
    ),
    {
      maxLength: 12,
    },
  )
  .map((parts) => parts.map(([word, gap]) => word + gap).join(""));
