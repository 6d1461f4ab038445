/**
 * A ready set of redactions: keys and tokens of well-known shapes, card numbers, e-mail addresses.
 *
 * Q1  time is linear in the length of a text, whatever it holds: every pattern begins with something rare, and looks no further than a
 *     stated length, or to the end of one word, before it fails. What that cannot be said of is looked for by hand.
 * Q2  what was put in the place of something is not found again.
 */
import { findCards } from "./redact-cards.js";
import type { Redact } from "./redact-text.js";

/** What there is to find. */
export const redactionNames = [
  "privateKeys",
  "anthropic",
  "openai",
  "aws",
  "github",
  "slack",
  "stripe",
  "google",
  "jwt",
  "bearer",
  "urls",
  "secrets",
  "cards",
  "emails",
] as const;

export type RedactionName = (typeof redactionNames)[number];

/** For each, whether it is looked for (all are), or what stands in its place. */
export type RedactionChoices = { readonly [K in RedactionName]?: boolean | string };

/** A set of redactions, as `open` and `sessions.redact` take it. */
export interface Redactions extends Redact {
  /** The same for a text wherever it stands, arguments of calls too. */
  readonly everywhere: (text: string, field?: string) => string;
}

export const isReadySet = (redact: Redact): redact is Redactions => typeof (redact as Partial<Redactions>).everywhere === "function";

const PLACEHOLDERS: Readonly<Record<RedactionName, string>> = {
  privateKeys: "[private key]",
  anthropic: "[key]",
  openai: "[key]",
  aws: "[key]",
  github: "[token]",
  slack: "[token]",
  stripe: "[key]",
  google: "[key]",
  jwt: "[token]",
  bearer: "[token]",
  urls: "[password]",
  secrets: "[secret]",
  cards: "[card]",
  emails: "[email]",
};

/** Makes the set. `args`: whether arguments of calls are gone over as well, with which tools are then run. */
export function makeRedactions(choices: RedactionChoices, args: boolean): Redactions {
  const rules = redactionNames.flatMap((name) => {
    const chosen = choices[name] ?? true;
    return chosen === false ? [] : [{ rule: RULES[name], placeholder: chosen === true ? PLACEHOLDERS[name] : chosen }];
  });
  const secret = choices.secrets === false ? undefined : typeof choices.secrets === "string" ? choices.secrets : PLACEHOLDERS.secrets;
  const once = (text: string): string => rules.reduce((edited, { rule, placeholder }) => rule(edited, placeholder), text);
  const everywhere = (text: string, field?: string): string => {
    let edited = once(text);
    // What was put in the place of one may part another from what stood before it.
    for (let rounds = 0, before = text; edited !== before && rounds < MAX_ROUNDS; rounds++) {
      before = edited;
      edited = once(before);
    }
    if (secret === undefined || field === undefined || edited !== text || text === secret) return edited;
    return SECRET_FIELD.test(field) && isValue(text) ? secret : text;
  };
  const redact: Redact = (text, where) => (where.in === "arguments" && !args ? text : everywhere(text, where.field));
  return Object.assign(redact, { everywhere });
}

const MAX_ROUNDS = 8;

type Rule = (text: string, placeholder: string) => string;

/** Not behind a letter or a digit, unless that is the end of an escape: a text may hold JSON that was made a text. */
const START = "(?<!(?<!\\\\)[A-Za-z0-9])";

/** A pattern is not tried on texts that hold none of the words it begins with. */
function pattern(source: string, ...hints: readonly string[]): Rule {
  const any = new RegExp(source, "g");
  return (text, placeholder) => (hints.some((hint) => text.includes(hint)) ? text.replace(any, () => placeholder) : text);
}

/** The same where something before the secret stays: the first group of the pattern. */
function behind(source: string, flags = "g"): Rule {
  const any = new RegExp(source, flags);
  return (text, placeholder) =>
    text.replace(any, (found: string, before: string, value: string) => (value === placeholder ? found : before + placeholder));
}

const both =
  (...rules: readonly Rule[]): Rule =>
  (text, placeholder) =>
    rules.reduce((edited, rule) => rule(edited, placeholder), text);

/** How fields and settings are named that hold secrets: `api_key`, `client-secret`, `DB_PASSWORD`. */
const SECRET_NAME =
  "(?:[A-Za-z0-9]{1,30}[_-]){0,3}(?:(?:api|access|secret|private|auth|client|signing|encryption)[_-]?(?:key|token|secret)" +
  "|secret[_-]?access[_-]?key|password|passwd|passphrase|pwd|secret|token)";
const SECRET_FIELD = new RegExp(`^${SECRET_NAME}$`, "i");

/** That what follows holds a digit: a value, and no plain word. */
const HAS_DIGIT = "(?=[^\\s\"'`<>]{0,100}[0-9])";

const RULES: Readonly<Record<RedactionName, Rule>> = {
  privateKeys: keyBlocks,
  anthropic: pattern(`${START}sk-ant-[A-Za-z0-9_-]{16,}`, "sk-ant-"),
  openai: pattern(`${START}sk-(?:proj-|svcacct-|admin-|None-)?(?=[A-Za-z0-9_-]{0,60}[0-9])[A-Za-z0-9_-]{20,}`, "sk-"),
  aws: pattern(`${START}(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])`, "AKIA", "ASIA", "ABIA", "ACCA"),
  github: both(pattern(`${START}gh[opsur]_[A-Za-z0-9]{30,}`, "gh"), pattern(`${START}github_pat_[A-Za-z0-9_]{22,}`, "github_pat_")),
  slack: both(
    pattern(`${START}xox[abceoprs](?:\\.xox[a-z])?-[A-Za-z0-9-]{10,}`, "xox"),
    pattern(`${START}xapp-[A-Za-z0-9-]{10,}`, "xapp-"),
    behind("(hooks\\.slack\\.com\\/(?:services|workflows|triggers)\\/)([A-Za-z0-9\\/_-]{8,})"),
  ),
  stripe: both(
    pattern(`${START}[spr]k_(?:live|test)_[A-Za-z0-9]{10,}`, "k_live_", "k_test_"),
    pattern(`${START}whsec_[A-Za-z0-9+/=]{16,}`, "whsec_"),
  ),
  google: both(
    pattern(`${START}AIza[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])`, "AIza"),
    pattern(`${START}ya29\\.[A-Za-z0-9_-]{20,}`, "ya29."),
    pattern(`${START}GOCSPX-[A-Za-z0-9_-]{20,}`, "GOCSPX-"),
  ),
  // One start to a word: a long run of its letters is looked over once.
  jwt: pattern("(?<!(?<!\\\\)[A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{5,}\\.[A-Za-z0-9_-]{5,}(?:\\.[A-Za-z0-9_-]*){1,3}", "eyJ"),
  bearer: both(
    behind(`((?<![A-Za-z0-9])[Bb](?:earer|EARER)[ \\t]{1,8})${HAS_DIGIT}([A-Za-z0-9._~+/=-]{16,})`),
    behind("([Aa]uthorization[\"'\\\\]{0,3}[ \\t]{0,4}[:=][ \\t]{0,4}[\"'\\\\]{0,3}[Bb]asic[ \\t]{1,8})([A-Za-z0-9+/=]{8,})"),
  ),
  urls: behind("(:\\/\\/[^\\s/:@\"'<>]{0,100}:)([^\\s/\"'<>]{1,200})(?=@)"),
  // `api_key=`, `"client_secret": "`, `PASSWORD: `, and their value.
  secrets: behind(
    `((?<![A-Za-z0-9])${SECRET_NAME}["'\\\\]{0,3}[ \\t]{0,4}(?:=>|:=|[:=])[ \\t]{0,4}["'\\\\]{0,3})${HAS_DIGIT}([^\\s"'\\\\,;&<>()[\\]{}]{6,400})`,
    "gi",
  ),
  cards: (text, placeholder) => replaceSpans(text, findCards(text), placeholder),
  emails: (text, placeholder) => replaceSpans(text, findEmails(text), placeholder),
};

/** What a field of such a name holds that is no word or sentence. */
const isValue = (text: string): boolean => text.length >= 6 && text.length <= 10_000 && !/\s/.test(text) && /[0-9]/.test(text);

// ---- by hand

type Span = readonly [from: number, to: number];

function replaceSpans(text: string, spans: readonly Span[], placeholder: string): string {
  if (spans.length === 0) return text;
  let edited = "";
  let at = 0;
  for (const [from, to] of spans) {
    edited += text.slice(at, from) + placeholder;
    at = to;
  }
  return edited + text.slice(at);
}

const BEGIN = "-----BEGIN ";
const END = "-----END ";
const KEY_BODY = /[A-Za-z0-9+/=\s:,\\-]/;

/** A block from its first line to its last; one that was cut short, as far as it may go on. */
function keyBlocks(text: string, placeholder: string): string {
  const spans: Span[] = [];
  let hasEnd = true;
  for (let from = text.indexOf(BEGIN); from !== -1; ) {
    const head = /^-----BEGIN (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----/.exec(text.slice(from, from + 120));
    if (head === null) {
      from = text.indexOf(BEGIN, from + 1);
      continue;
    }
    const end = hasEnd ? text.indexOf(END, from) : -1;
    if (end === -1) hasEnd = false;
    let to = from + head[0].length;
    if (end !== -1) to = endOfLine(text, end);
    else while (to < text.length && KEY_BODY.test(text[to] as string)) to += 1;
    spans.push([from, to]);
    from = text.indexOf(BEGIN, to);
  }
  return replaceSpans(text, spans, placeholder);
}

function endOfLine(text: string, end: number): number {
  const tail = /^-----END [A-Z0-9 ]{1,80}-----/.exec(text.slice(end, end + 120));
  return end + (tail?.[0].length ?? END.length);
}

const LOCAL = /[A-Za-z0-9._%+'\-\u00a1-\uffff]/;
const DOMAIN = /[A-Za-z0-9.\-\u00a1-\uffff]/;
const MAX_LOCAL = 64;
const MAX_DOMAIN = 255;

/** Looked for from each @: a run of letters without one is not looked over again and again. */
function findEmails(text: string): readonly Span[] {
  const spans: Span[] = [];
  let done = 0;
  for (let at = text.indexOf("@"); at !== -1; at = text.indexOf("@", at + 1)) {
    let from = at;
    while (from > done && at - from < MAX_LOCAL && LOCAL.test(text[from - 1] as string)) from -= 1;
    while (from < at && /[.'+-]/.test(text[from] as string)) from += 1;
    // An escape in a text that holds JSON: its letter is no part of the address.
    if (text[from - 1] === "\\" && /[nrtbf]/.test(text[from] as string)) from += 1;
    let to = at + 1;
    while (to < text.length && to - at <= MAX_DOMAIN && DOMAIN.test(text[to] as string)) to += 1;
    while (to > at && /[.-]/.test(text[to - 1] as string)) to -= 1;
    if (from === at || !isDomain(text.slice(at + 1, to))) continue;
    spans.push([from, to]);
    done = to;
  }
  return spans;
}

/** Names with a dot between them, the last of which is no number: `npm@10.2.3` is no address. */
function isDomain(domain: string): boolean {
  const labels = domain.split(".");
  const last = labels.at(-1) ?? "";
  return labels.length >= 2 && labels.every((label) => label !== "" && label.length <= 63) && last.length >= 2 && !/[0-9]/.test(last);
}
