/** Headers that carry credentials, and users with their passwords in addresses and commands. */
import { type Find, findAll, findPattern, type Span } from "./redact-spans.js";

/** A place in a template, or what stands where a secret is to be filled in. */
const isTemplate = (value: string): boolean =>
  /^(?:\$|<|\{|\[|%|your|my_)|\$\{|\{\{|\.\.\.|…|[xX*]{6,}$/i.test(value);

const AUTHORIZATION =
  /authorization["'\\\]]{0,5}[ \t]{0,4}(?:=>|[:=])[ \t]{0,4}(?:[bfr](?=["'`\\]))?[\\]{0,3}["'`]?/gi;
/**
 * Whether it is one is told by its beginning. What is taken goes on to the end of its word, or of
 * the line or the text in quotes.
 */
const CREDENTIALS = /(?:([A-Za-z][A-Za-z0-9-]{1,30})[ \t]{1,8})?([^\s"'`\\]{8,512})/y;
const REST_OF_WORD = /[^\s"'`\\]*/y;
const REST_OF_LINE = /[^\r\n"'`\\]*/y;

function endOf(rest: RegExp, text: string, from: number): number {
  rest.lastIndex = from;
  return rest.test(text) ? rest.lastIndex : from;
}

const findAuthorization: Find = (text) => {
  const spans: Span[] = [];
  let done = 0;
  for (const { 0: head, index } of text.matchAll(AUTHORIZATION)) {
    if (index < done) continue;
    CREDENTIALS.lastIndex = index + head.length;
    const [, scheme = "", value = ""] = CREDENTIALS.exec(text) ?? [];
    if (!isCredential(scheme.toLowerCase(), value)) continue;
    const to = CREDENTIALS.lastIndex;
    // A list of parameters, one of which signs the others, goes to the end of its line.
    done = endOf(
      /^(?:aws4|digest|oauth|hawk)/i.test(scheme) ? REST_OF_LINE : REST_OF_WORD,
      text,
      to,
    );
    spans.push([to - value.length, done]);
  }
  return spans;
};

/** Base64 may have no digit. Without a scheme only a long word is no sentence. */
function isCredential(scheme: string, value: string): boolean {
  if (value === "" || isTemplate(value)) return false;
  if (scheme === "basic") return true;
  if (scheme === "") return value.length >= 16 && /[0-9]/.test(value);
  return /[0-9]/.test(value) || (value.length >= 16 && !/[-_]/.test(value));
}

const BEARER =
  /(?<![A-Za-z0-9])bearer[ \t]{1,8}(?=[A-Za-z0-9._~+/=-]{0,100}[0-9])([A-Za-z0-9._~+/=-]{16,})/dgi;
const findBearer: Find = (text) =>
  Array.from(text.matchAll(BEARER), ({ indices }) => indices?.[1] as Span);

const COOKIE =
  /(?<![A-Za-z0-9])(set-)?cookies?["'\\]{0,4}[ \t]{0,4}[:=][ \t]{0,4}[[\\"'`]{0,5}(?=[\w.%-]{1,100}=)/gi;
const CURL_COOKIE = /\s(?:-b|--cookie)[ =]{1,2}["']?(?=[\w.%-]{1,100}=)/g;
const JAR = /[^\r\n"'`\\]{6,512}/y;

/** Of a cookie that is set, its value; of those that are sent, all. */
const findCookies: Find = (text) => {
  const spans: Span[] = [];
  let done = 0;
  const heads = [...text.matchAll(COOKIE), ...text.matchAll(CURL_COOKIE)].toSorted(
    (a, b) => a.index - b.index,
  );
  for (const { 0: head, 1: isSet, index } of heads) {
    if (index < done) continue;
    const from = index + head.length;
    JAR.lastIndex = from;
    const jar = JAR.exec(text)?.[0] ?? "";
    if (!jar.split(";").some(isCookie)) continue;
    const start = isSet === undefined ? from : from + jar.indexOf("=") + 1;
    const end = jar.indexOf(";");
    done =
      isSet === undefined || end === -1 ? endOf(REST_OF_LINE, text, from + jar.length) : from + end;
    spans.push([start, done]);
  }
  return spans;
};

function isCookie(pair: string): boolean {
  const value = pair.slice(pair.indexOf("=") + 1).trim();
  return (value.length >= 16 || (value.length >= 8 && /[0-9]/.test(value))) && !isTemplate(value);
}

export const findHeaders: Find = findAll(findAuthorization, findBearer, findCookies);

// ---- users with passwords

const MAX_USER = 100;
const MAX_PASSWORD = 300;

/**
 * `postgres://app:password@host`. The password may hold an @, and a slash if no host stands before
 * it.
 */
const findInUrls: Find = (text) => {
  const spans: Span[] = [];
  for (let at = text.indexOf("://"); at !== -1; at = text.indexOf("://", at + 3)) {
    const [head, user] = /^:\/\/([^\s/:@"'`<>]*):/.exec(text.slice(at, at + MAX_USER + 4)) ?? [];
    if (head === undefined || user === undefined) continue;
    const from = at + head.length;
    const word = /^[^\s"'`<>]*/.exec(text.slice(from, from + MAX_PASSWORD))?.[0] ?? "";
    const authority = /^[^/?#]*/.exec(word)?.[0] ?? "";
    const isPort = /^[0-9]{1,5}(?:[/?#]|$)/.test(word);
    const end =
      authority.includes("@") || isPort ? authority.lastIndexOf("@") : word.lastIndexOf("@");
    if (end > 0 && !isTemplate(word.slice(0, end))) spans.push([from, from + end]);
  }
  return spans;
};

const USER = /\s(?:-u|--user|--proxy-user)[ =]{0,2}["']?[^\s:"'$<]{1,100}:/g;
const COMMAND = /\b(?:curl|wget|https?)\b/;

/** `curl -u ann:password`. */
const findInCommands: Find = (text) => {
  const spans: Span[] = [];
  for (const { 0: head, index } of text.matchAll(USER)) {
    const from = index + head.length;
    const value = /^[^\s"']{1,200}/.exec(text.slice(from, from + 200))?.[0] ?? "";
    if (
      value.length < 4 ||
      isTemplate(value) ||
      !COMMAND.test(text.slice(Math.max(0, index - 300), index + 1))
    )
      continue;
    spans.push([from, from + value.length]);
  }
  return spans;
};

/** A key in the place of the user: `https://0a1b…@o1.ingest.sentry.io`. */
const findUsers: Find = findPattern(
  ":\\/\\/(?=[A-Za-z_-]{0,40}[0-9])([A-Za-z0-9_-]{20,200})@",
  "",
  "://",
);

export const findPasswords: Find = findAll(findInUrls, findUsers, findInCommands);
