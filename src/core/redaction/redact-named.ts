/**
 * Values that stand under the name of a secret: settings, fields, flags, columns, and what people
 * say.
 *
 * Each separator is looked at once. Back from it is the name, of bounded length; forth from it the
 * value, which is looked at within a bounded length, and passed over whole once it is taken.
 */
import { type Find, findAll, findPattern, type Span } from "./redact-spans.js";
import { ALONE, isSecret, kindOfName, type SecretKind, SPEAKS } from "./redact-values.js";

const MAX_NAME = 64;
const MAX_VALUE = 512;
const NAME = /[A-Za-z0-9_.-]/;

/** A name before a separator; perhaps with quotes, a bracket or spaces between them. */
function nameBefore(
  text: string,
  separator: number,
): { readonly name: string; readonly from: number } {
  let to = separator;
  const least = Math.max(0, separator - MAX_NAME - 8);
  while (to > separator - 5 && (text[to - 1] === " " || text[to - 1] === "\t")) to -= 1;
  while (to > separator - 9 && /["'`\\\]?]/.test(text[to - 1] ?? "")) to -= 1;
  let from = to;
  while (from > least && NAME.test(text[from - 1] as string)) from -= 1;
  return { name: text.slice(from, to), from };
}

interface Value {
  readonly from: number;
  readonly to: number;
  readonly text: string;
  readonly isQuoted: boolean;
  readonly isLast: boolean;
}

/** The type of a variable, between its name and its value: `password: string = "…"`. */
const TYPE =
  /(?:&?(?:'static )?str|string|String|Optional\[str\]|string \| (?:undefined|null))[ \t]{0,2}=(?!=)[ \t]{0,4}/y;
const OPENING = /[bfruBFRU@$]{0,2}(\\*)(["'`])/y;
const PLAIN = /[^\s"'`<>\\|,;&]*/y;
const BEGINNING = /^[^\s"'`<>\\|]{1,16}[^\s"'`<>\\|=:]*={0,2}/;

function valueAt(text: string, start: number): Value | undefined {
  let at = start;
  while (at < start + 9 && (text[at] === " " || text[at] === "\t")) at += 1;
  TYPE.lastIndex = at;
  if (TYPE.test(text)) at = TYPE.lastIndex;
  OPENING.lastIndex = at;
  const opening = OPENING.exec(text);
  if (opening !== null) {
    const from = OPENING.lastIndex;
    const to = closing(text, from, (opening[1] as string).length, opening[2] as string);
    if (to !== undefined)
      return {
        from,
        to,
        text: text.slice(from, Math.min(to, from + MAX_VALUE)),
        isQuoted: true,
        isLast: true,
      };
    at = from;
  }
  return plainAt(text, at);
}

/**
 * Where a quoted text ends, on its line: at a quote behind as many backslashes as the first one
 * has.
 */
function closing(text: string, from: number, slashes: number, quote: string): number | undefined {
  // A text that is longer is no password.
  const most = Math.min(text.length, from + 20 * MAX_VALUE);
  for (let at = from; at < most && text[at] !== "\n"; at++) {
    if (text[at] !== quote) continue;
    let count = 0;
    while (at - count > from && text[at - count - 1] === "\\") count += 1;
    if (count % (2 * (slashes + 1)) === slashes) return at - count + (count - slashes);
  }
  return undefined;
}

/** Where the next setting begins: `&next=`, `;Server=`, `,user:`. */
const NEXT = /[,;&](?=[A-Za-z_][\w.%-]{0,60}(?:=|:(?!\/)))/;
const NEXT_HERE = new RegExp(NEXT, "y");

/**
 * The beginning of a text without quotes, by which it is told whether it is a secret. It ends at
 * the next separator: what is looked at from one separator is hardly looked at from another.
 */
function plainAt(text: string, from: number): Value | undefined {
  const head = BEGINNING.exec(text.slice(from, from + MAX_VALUE))?.[0];
  if (head === undefined) return undefined;
  let value = head.slice(0, NEXT.exec(text.slice(from, from + head.length + 1))?.index);
  const cut = unopened(value);
  value = value.slice(0, cut).replace(/[,;.)\]}]+$/, (tail) => (isOpened(value, tail) ? tail : ""));
  const to = from + value.length;
  return {
    from,
    to,
    text: value,
    isQuoted: false,
    isLast: /^[ \t]{0,8}(?:\r?\n|$|\\n|")/.test(text.slice(to, to + 12)),
  };
}

/**
 * Where a value that is a secret ends: at the end of its word, or before the next setting. Nothing
 * behind that is looked at (REDACTIONS-1).
 */
function endOf(text: string, { from, to, isQuoted }: Value): number {
  // What follows was cut from it, as a bracket of the code around it.
  if (isQuoted || /^[,;.)\]}&]/.test(text.slice(to, to + 1))) return to;
  let end = runFrom(text, from);
  while (/^[,;&]/.test(text.slice(end, end + 1)) && !isNext(text, end))
    end = runFrom(text, end + 1);
  while (end > to && /[,;.)\]}]/.test(text[end - 1] as string)) end -= 1;
  return end;
}

function runFrom(text: string, from: number): number {
  PLAIN.lastIndex = from;
  PLAIN.test(text);
  return PLAIN.lastIndex;
}

function isNext(text: string, at: number): boolean {
  NEXT_HERE.lastIndex = at;
  return NEXT_HERE.test(text);
}

const isOpened = (value: string, tail: string): boolean => tail === ")" && value.includes("(");

/** The first bracket that closes what was opened before the value, if code goes on behind it. */
function unopened(value: string): number {
  const found = /^[^([{]*?([)\]}])(?:$|[.,;)\]}])/.exec(value);
  return found === null ? value.length : found[0].lastIndexOf(found[1] as string);
}

const SEPARATOR = /=>|:=|[:=|]|(?<=\s--[A-Za-z][A-Za-z-]{0,40}) /g;

/** `api_key=`, `"client_secret": "`, `PASSWORD: `, `--token `, and their value. */
const findSettings: Find = (text) => {
  if (!SPEAKS.test(text) && !/auth|sig/i.test(text)) return [];
  const spans: Span[] = [];
  let done = 0;
  for (const { 0: separator, index } of text.matchAll(SEPARATOR)) {
    if (index < done) continue;
    const { name, from } = nameBefore(text, index);
    const after = index + separator.length;
    const kind = kindOfName(name) ?? signature(text, from, name);
    // `==` and `::` compare, or name a part of something.
    if (kind === undefined || /^[=:]/.test(text.slice(after, after + 1))) continue;
    // In a table a setting stands beside its value. Elsewhere it is a union of types.
    if (separator === "|" && /[a-z]/.test(name)) continue;
    const value = valueAt(text, after);
    if (value === undefined) continue;
    const isFlag = separator === " ";
    const isTight = separator === "=" && text[index - 1] !== " " && text[after] !== " ";
    const isLiteral = isFlag || (isTight && !isCode(text, value, name));
    if (
      !isSecret(kind, value.text, {
        ...value,
        isLiteral,
        isSetting: isTight && /^[A-Z][A-Z0-9_]*$/.test(name),
      })
    )
      continue;
    done = endOf(text, value);
    spans.push([value.from, done]);
  }
  return spans;
};

/** An argument of a call: `login(user=name, password=word)`. */
const isCode = (text: string, { to }: Value, name: string): boolean =>
  /^[a-z_]+$/.test(name) && /^[,)]/.test(text.slice(to, to + 1));

/** In addresses that are signed, their signature; and base64 of a name and a password. */
function signature(text: string, from: number, name: string): SecretKind | undefined {
  if (/^(?:sig|x-(?:amz|goog)-signature)$/i.test(name))
    return /[?&;]/.test(text[from - 1] ?? "") ? "token" : undefined;
  if (name !== "auth" && name !== "_auth") return undefined;
  const value = valueAt(text, from + name.length + (text[from - 1] === '"' ? 2 : 1));
  return value !== undefined && isUserAndPassword(value.text) ? "password" : undefined;
}

const isUserAndPassword = (value: string): boolean =>
  /^[A-Za-z0-9+/]{10,}={0,2}$/.test(value) &&
  /^[\x20-\x7e]+:[\x20-\x7e]+$/.test(Buffer.from(value, "base64").toString("latin1"));

/** One of a pattern's first group, where it is a secret of this kind. */
function said(
  source: string,
  kind: SecretKind,
  hint: RegExp,
  accepts: (value: string) => boolean = () => true,
): Find {
  const any = new RegExp(source, "dgi");
  return (text) => {
    if (!hint.test(text)) return [];
    return Array.from(text.matchAll(any), ({ indices, 1: value }) => ({
      span: indices?.[1] as Span,
      value: value as string,
    }))
      .filter(({ value }) => accepts(value) && isSecret(kind, value, ALONE))
      .map(({ span }) => span);
  };
}

/** Letters and digits, and no name of an algorithm. */
const isSpoken = (value: string): boolean =>
  /[0-9]/.test(value) &&
  /[A-Za-z]/.test(value) &&
  !/^(?:base\d|sha|utf|md5|[hre]s\d|oauth|http|v?\d+\.)/i.test(value);

/** Names and values of a pattern's two groups. */
function inXml(any: RegExp): Find {
  return (text) => {
    if (!text.includes("<")) return [];
    return Array.from(text.matchAll(any)).flatMap(({ 1: name, 2: value, indices }) => {
      const kind = kindOfName(name as string);
      return kind !== undefined && isSecret(kind, value as string, ALONE)
        ? [indices?.[2] as Span]
        : [];
    });
  };
}

const WORD = "[^\\s\"'`<>]";
/** It ends before a sign that ends a sentence. */
const SPOKEN = `${WORD}{5,199}[^\\s"'\`<>.,;:?)]`;

export const findNamed: Find = findAll(
  findSettings,
  said(
    `\\b(?:password|identified by)\\s{1,4}'([^'\\n]{1,200})'`,
    "password",
    /password|identified/i,
  ),
  said(`\\blogin\\s{1,4}\\S{1,100}\\s{1,4}password\\s{1,4}(\\S{1,200})`, "password", /password/i),
  said(`\\bsshpass\\s{1,4}-p\\s{0,4}["']?(${WORD}{1,200})`, "password", /sshpass/),
  said(
    `\\b(?:docker|podman|registry)\\s{1,4}login\\b[^\\n]{0,100}?\\s-p\\s{1,4}["']?(${WORD}{1,200})`,
    "password",
    /login/,
  ),
  said(`\\bmysql(?:dump|admin)?\\b[^\\n]{0,100}?\\s-p["']?(${WORD}{1,200})`, "password", /mysql/),
  said(
    `\\b(?:sqlcmd|snowsql)\\b[^\\n]{0,100}?\\s-p\\s{0,4}["']?(${WORD}{1,200})`,
    "password",
    /sqlcmd|snowsql/,
  ),
  said(
    `\\bConvertTo-SecureString\\s{1,4}(?:-String\\s{1,4})?["']([^"'\\n]{1,200})["']`,
    "password",
    /SecureString/i,
  ),
  said(`\\bWIFI:(?:[TSH]:[^;\\n]{0,64};){0,3}P:([^;\\n]{1,64});`, "password", /WIFI:/),
  said(`(?:^|\\n)\\s{0,8}(?:bind|root)pw\\s{1,8}(${WORD}{6,200})`, "password", /pw/, isSpoken),
  said(
    `password["']?:[ \\t]{0,4}\\r?\\n[ \\t]{1,20}(${WORD}{6,200})(?=[ \\t]{0,4}(?:\\r?\\n|$))`,
    "password",
    /password/i,
    isSpoken,
  ),
  said(
    `\\b(?:password|passwort|passphrase|passcode|api[ _-]?key|access token|secret(?: access)? key|token)(?: (?:for|of|to|on)(?: [\\w.-]{1,30}){1,3})? (?:is|was|lautet|ist):? {0,2}["'\`]?(${SPOKEN})`,
    "password",
    /(?:is|was|lautet|ist)\b/,
    isSpoken,
  ),
  said(
    `\\b(?:user(?:name)?|login|account):? \\S{1,60} (?:and|with) (?:the )?password:? ["'\`]?(${SPOKEN})`,
    "password",
    /password/i,
    isSpoken,
  ),
  // What a wallet is made from, and its key.
  findPattern(
    `(?:mnemonic(?: phrase)?|(?:seed|recovery) phrase)["']?(?: is)?[:=]?\\s{1,4}((?:[a-z]{3,8} ){11,23}[a-z]{3,8})`,
    "i",
    "nemonic",
    "phrase",
  ),
  findPattern(
    `\\bwif["']?\\s{0,2}[:=]\\s{0,4}["']?([5KL][1-9A-HJ-NP-Za-km-z]{50,51})`,
    "i",
    "wif",
    "WIF",
  ),
  // XML: elements by their own names, and settings of .NET.
  inXml(/<([A-Za-z][\w.:-]{0,60})>([^<>\s]{6,400})<\//dg),
  inXml(/<add\s{1,8}key="([\w.:-]{1,60})"\s{1,8}value="([^"<>\s]{6,400})"/dg),
);
